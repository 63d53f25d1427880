package election_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/leader"

// inBubble runs f with a server, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, zktest.InMemory())) })
}

// join returns the election as seen by a separate client.
func join(t *testing.T, srv *zktest.Server, id string, opts ...election.Option) *election.Election {
	t.Helper()
	e, err := election.New(bubble.Dial(t, srv, id), path, opts...)
	require.NoError(t, err)
	return e
}

// campaign campaigns on another goroutine.
func campaign(t *testing.T, e *election.Election) <-chan *election.Term {
	t.Helper()
	c := make(chan *election.Term, 1)
	go func() {
		term, err := e.Campaign(t.Context())
		if err != nil {
			close(c)
			return
		}
		c <- term
	}()
	synctest.Wait()
	return c
}

// elected waits for the term, for an hour at most.
func elected(t *testing.T, c <-chan *election.Term) *election.Term {
	t.Helper()
	select {
	case term := <-c:
		require.NotNil(t, term, "the campaign failed")
		require.NoError(t, term.Err())
		return term
	case <-time.After(time.Hour):
		t.Fatal("not elected within an hour")
		return nil
	}
}

func requireNoLeader(t *testing.T, c <-chan *election.Term) {
	t.Helper()
	synctest.Wait()
	select {
	case term := <-c:
		t.Fatalf("elected: %v", term)
	default:
	}
}

func TestCampaign_Layouts(t *testing.T) {
	const guid = `_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-`
	for layout, name := range map[election.Layout]string{election.Latch: "latch-", election.Selector: "lock-"} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			term := elected(t, campaign(t, join(t, srv, "a", election.WithLayout(layout), election.WithData([]byte("n1")))))
			children := srv.Children(path)
			require.Len(t, children, 1)
			require.Regexp(t, regexp.MustCompile(`^`+guid+name+`0000000000$`), children[0])
			node, _ := srv.Node(path + "/" + children[0])
			require.Equal(t, "n1", string(node.Data))
			require.Equal(t, zkrecipes.Token(node.Stat.Czxid), term.Token())
			require.Equal(t, srv.SessionOf("a"), node.Stat.EphemeralOwner)
		})
	}
}

func TestRun_CampaignsAgainAfterEachTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		var tokens []zkrecipes.Token
		enough := errors.New("enough")
		err := e.Run(ctx, func(_ context.Context, term *election.Term) error {
			if tokens = append(tokens, term.Token()); len(tokens) == 5 {
				cancel(enough)
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
		require.Len(t, tokens, 5)
		require.IsIncreasing(t, tokens)
		bubble.Clean(t, srv, path)
	})
}

// The context of the body ends, the body returns, and the node is deleted, in this order.
func TestRun_OrderOfTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		next := make(<-chan *election.Term)
		err := join(t, srv, "a").Run(ctx, func(ctx context.Context, term *election.Term) error {
			next = campaign(t, join(t, srv, "b"))
			cancel()
			<-ctx.Done()
			require.NoError(t, term.Err(), "still the leader while the body cleans up")
			time.Sleep(time.Second)
			requireNoLeader(t, next)
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		elected(t, next)
	})
}

// That another context has ended is an error of the body while the context that it was given lives.
func TestRun_BodyFailsInItsTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "a")
		for _, failed := range []error{context.Canceled, fmt.Errorf("save: %w", context.DeadlineExceeded)} {
			terms := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.Equal(t, failed, e.Run(ctx, func(context.Context, *election.Term) error {
				terms++
				return failed
			}))
			require.Equal(t, 1, terms)
		}
		require.ErrorContains(t, e.Run(t.Context(), nil), "the function is nil")
	})
}

// ended is an error of another library that reports the end of a context but wraps nothing.
type ended struct{}

func (ended) Error() string        { return "ended" }
func (ended) Is(target error) bool { return target == context.Canceled }
func (ended) Unwrap() error        { return nil }

// An error that reports more than the end of the context ends Run. One that reports no more does not, however it is
// wrapped.
func TestRun_BodyFailsAsItsTermEnds(t *testing.T) {
	disk := errors.New("disk full")
	for name, c := range map[string]struct {
		fail func(ctx context.Context) error
		ends bool
	}{
		"joined":            {func(ctx context.Context) error { return errors.Join(disk, ctx.Err()) }, true},
		"joined, the cause": {func(ctx context.Context) error { return errors.Join(context.Cause(ctx), disk) }, true},
		"two wrapped":       {func(ctx context.Context) error { return fmt.Errorf("save: %w: %w", disk, ctx.Err()) }, true},
		"joined deep below": {func(ctx context.Context) error {
			return fmt.Errorf("save: %w", errors.Join(ctx.Err(), disk))
		}, true},
		"another one": {func(context.Context) error { return disk }, true},
		"bare":        {func(ctx context.Context) error { return ctx.Err() }, false},
		"wrapped":     {func(ctx context.Context) error { return fmt.Errorf("save: %w", ctx.Err()) }, false},
		"cause":       {context.Cause, false},
		"both":        {func(ctx context.Context) error { return errors.Join(ctx.Err(), context.Cause(ctx)) }, false},
		"fenced": {func(ctx context.Context) error {
			return fmt.Errorf("save: %w: %w", zkrecipes.ErrFenced, context.Cause(ctx))
		}, false},
		"waited": {func(ctx context.Context) error {
			return &zkrecipes.WaitError{Path: "/x", Err: errors.Join(context.Cause(ctx), errors.New("connection refused"))}
		}, false},
		"of another library": {func(context.Context) error { return ended{} }, false},
		"asked": {func(ctx context.Context) error {
			return &zkrecipes.OpError{
				Op: "get", Path: "/x",
				Err: fmt.Errorf("%w (%w)", context.Cause(ctx), errors.New("connection refused")),
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				again := errors.New("stood again")
				terms := 0
				var failed error
				err := join(t, srv, "a").Run(t.Context(), func(ctx context.Context, term *election.Term) error {
					if terms++; terms == 2 {
						return again
					}
					require.NoError(t, srv.Delete(term.Path()))
					<-ctx.Done()
					failed = c.fail(ctx)
					return failed
				})
				if c.ends {
					require.Equal(t, failed, err)
				} else {
					require.Equal(t, again, err)
				}
			})
		})
	}
}

// The candidate would wait for the end of the context that it campaigns with.
func TestCampaign_InsideItsOwnTerm(t *testing.T) {
	for _, layout := range []election.Layout{election.Latch, election.Selector} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			e := join(t, srv, "a", election.WithLayout(layout))
			term := elected(t, campaign(t, e))
			for _, candidate := range []*election.Election{e, join(t, srv, "b", election.WithLayout(layout))} {
				ctx, cancel := context.WithTimeout(term.Context(), time.Minute)
				_, err := candidate.Campaign(ctx)
				cancel()
				require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			}
			require.NoError(t, term.Err())
			list, err := e.Queue(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
		})
	}
}

// The pauses between terms grow, and a term that lasts resets them.
func TestRun_TermsEndAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var pauses []time.Duration
		var last time.Time
		err := join(t, srv, "a").Run(ctx, func(context.Context, *election.Term) error {
			if !last.IsZero() {
				pauses = append(pauses, time.Since(last))
			}
			switch len(pauses) {
			case 20:
				time.Sleep(time.Second)
			case 1000: // there are some 150 in ten minutes
				cancel()
			}
			last = time.Now()
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		within := func(pause, base time.Duration) {
			t.Helper()
			require.GreaterOrEqual(t, pause, base/2)
			require.LessOrEqual(t, pause, base*3/2)
		}
		within(pauses[0], 50*time.Millisecond)
		within(pauses[1], 100*time.Millisecond)
		within(pauses[2], 200*time.Millisecond)
		within(pauses[19], 5*time.Second)
		require.Zero(t, pauses[20], "after a term that lasted")
		within(pauses[21], 50*time.Millisecond)
		within(pauses[len(pauses)-1], 5*time.Second)
	})
}

// Run returns at the instant at which its context ends.
func TestRun_EndsDuringThePause(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		require.Equal(t, why, join(t, srv, "a").Run(ctx, func(context.Context, *election.Term) error { return nil }))
		require.Equal(t, time.Millisecond, time.Since(start))
		require.Empty(t, srv.Children(path))
	})
}

func TestRun_WithRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		passing, fatal := errors.New("passing"), errors.New("fatal")
		var asked []error
		e := join(t, srv, "a", election.WithRetry(func(err error) bool {
			asked = append(asked, err)
			return errors.Is(err, passing)
		}))
		terms := 0
		err := e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			switch terms++; terms {
			case 1, 2:
				return passing
			case 3:
				require.NoError(t, srv.Delete(term.Path()))
				<-ctx.Done()
				return ctx.Err()
			default:
				return fatal
			}
		})
		require.Equal(t, fatal, err)
		require.Equal(t, []error{passing, passing, fatal}, asked, "not about the end of its context")
	})
	_, err := election.New(nil, path, election.WithRetry(nil), nil)
	require.ErrorContains(t, err, "WithRetry")
	require.ErrorContains(t, err, "option 1 is nil")
}

// Term returns the term that Run serves, while it is held.
func TestTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := join(t, srv, "a")
		_, serving := e.Term()
		require.False(t, serving)
		done := errors.New("done")
		require.Equal(t, done, e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			got, serving := e.Term()
			require.True(t, serving)
			require.Same(t, term.Hold, got.Hold)
			require.NoError(t, srv.Delete(term.Path()))
			<-ctx.Done()
			_, serving = e.Term()
			require.False(t, serving, "lost")
			return done
		}))
		_, serving = e.Term()
		require.False(t, serving)
	})
}

// TestTerm_OfAnotherObject: each object knows only its own terms.
func TestTerm_OfAnotherObject(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		made := func() *election.Election {
			e, err := election.New(c, path)
			require.NoError(t, err)
			return e
		}
		e, another := made(), made()
		term := elected(t, campaign(t, e))
		own, serving := e.Term()
		require.True(t, serving)
		require.Same(t, term, own)
		_, serving = another.Term()
		require.False(t, serving)
		require.NoError(t, term.Release(t.Context()))
		_, serving = e.Term()
		require.False(t, serving)
	})
}

func TestRevoke(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := join(t, srv, "a"), join(t, srv, "b")
		require.NoError(t, b.Revoke(t.Context()), "no leader")
		term := elected(t, campaign(t, a))
		next := campaign(t, b)
		list, err := b.Queue(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.NoError(t, b.Revoke(t.Context()))
		<-term.Revoked()
		require.NoError(t, term.Err(), "a request, no more")
		require.NoError(t, term.Release(t.Context()))
		require.NoError(t, elected(t, next).Release(t.Context()))
	})
}

func TestLeaderAndQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		watcher := join(t, srv, "w")
		_, err := watcher.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		list, err := watcher.Queue(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)

		a := elected(t, campaign(t, join(t, srv, "a")))
		b := campaign(t, join(t, srv, "b"))
		leader, err := watcher.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Participant{
			Path: a.Path(), Data: []byte("a"), Name: "a", Token: a.Token(), Session: srv.SessionOf("a"), Since: leader.Since,
		}, leader)
		require.Equal(t, time.Now().Unix(), leader.Since.Unix())
		list, err = watcher.Queue(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, "a", list[0].Name)
		require.Equal(t, "b", list[1].Name)

		require.NoError(t, a.Release(t.Context()))
		require.NoError(t, elected(t, b).Release(t.Context()))
		_, err = watcher.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader, "the parent is there, and empty")
	})
}

// observe collects what an observer sees, as text.
func observe(t *testing.T, e *election.Election) func() []string {
	t.Helper()
	var mu sync.Mutex
	var told []string
	go func() {
		for now, err := range e.Watch(t.Context()) {
			mu.Lock()
			switch {
			case err != nil:
				told = append(told, "error: "+err.Error())
			case !now.Current:
				told = append(told, now.Leader.Name+"?")
			case !now.Exists:
				told = append(told, "none")
			default:
				told = append(told, now.Leader.Name)
			}
			mu.Unlock()
		}
	}()
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), told...)
	}
}

func TestWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		watcher := join(t, srv, "w")
		told := observe(t, watcher)
		require.Equal(t, []string{"none"}, told(), "no parent yet")
		a := elected(t, campaign(t, join(t, srv, "a")))
		require.Equal(t, []string{"none", "a"}, told())
		b := campaign(t, join(t, srv, "b"))
		require.NoError(t, a.Proclaim(t.Context(), []byte("a at work")))
		require.Equal(t, []string{"none", "a", "a at work"}, told())
		require.NoError(t, a.Release(t.Context()))
		require.Equal(t, []string{"none", "a", "a at work", "none", "b"}, told())
		srv.Expire(srv.SessionOf("w"))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"none", "a", "a at work", "none", "b", "b?", "b"}, told(), "a new session reads again")
		require.NoError(t, elected(t, b).Release(t.Context()))
		require.Equal(t, []string{"none", "a", "a at work", "none", "b", "b?", "b", "none"}, told())
		require.NoError(t, srv.DeleteAll("/app"))
		elected(t, campaign(t, join(t, srv, "c")))
		require.Equal(t, []string{"none", "a", "a at work", "none", "b", "b?", "b", "none", "c"}, told())
	})
}

// TestWatch_HasOneWatch: a candidate that joins behind the leader wakes no observer.
func TestWatch_HasOneWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := elected(t, campaign(t, join(t, srv, "a")))
		told := observe(t, join(t, srv, "w"))
		told()
		require.Empty(t, srv.Watchers(path), "candidates that join wake no observer")
		reads := srv.Intercept(zktest.Match{From: zktest.Label("w"), Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
		b := join(t, srv, "b")
		for range 5 {
			campaign(t, b)
		}
		require.Zero(t, reads.Hits())
		require.Len(t, srv.Watchers(leader.Path()), 3, "the leader, the one behind it, the observer")
	})
}

func TestWatch_Closed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "w")
		e, err := election.New(c, path)
		require.NoError(t, err)
		told := observe(t, e)
		told()
		require.NoError(t, c.Close())
		require.Equal(t, []string{"none", "?", "error: watch /app/leader: client closed"}, told())
	})
}

func TestProclaim_AfterTheTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		term := elected(t, campaign(t, join(t, srv, "a")))
		require.NoError(t, term.Release(t.Context()))
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), zkrecipes.ErrFenced)
	})
}

func TestLossOnSuspend(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		term := elected(t, campaign(t, join(t, srv, "a", election.WithLossOnSuspend())))
		srv.Cut(zktest.Label("a"))
		<-term.Done()
		var lost *zkrecipes.LostError
		require.ErrorAs(t, term.Err(), &lost)
		require.Equal(t, zkrecipes.LossSuspended, lost.Reason)
	})
}

func TestNew_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		before := len(srv.History())
		for _, bad := range []string{"", "/", "here", "/a/", "/a//b"} {
			_, err := election.New(c, bad)
			require.ErrorContains(t, err, "election: path")
		}
		_, err := election.New(c, path, election.WithLayout(7))
		require.ErrorContains(t, err, "layout 7")
		require.Len(t, srv.History(), before)
	})
}
