package znode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/lock"

var entry = znode.Entry{Kind: znode.Lock, Rule: znode.First}

func dial(t *testing.T, srv *zktest.Server, label string, opts ...conn.Option) *client.Client {
	t.Helper()
	return (*client.Client)(bubble.Dial(t, srv, label, opts...))
}

func queueOf(t *testing.T, srv *zktest.Server, label string, kinds ...string) *znode.Queue {
	t.Helper()
	q, err := znode.New(dial(t, srv, label), path, recipe.Config{}, kinds...)
	require.NoError(t, err)
	return q
}

func queue(t *testing.T, srv *zktest.Server, label string, opts ...conn.Option) *znode.Queue {
	t.Helper()
	return queueWith(t, dial(t, srv, label, opts...), []byte("me"))
}

// queueWith returns a queue whose contenders have the given data.
func queueWith(t *testing.T, c *client.Client, data []byte) *znode.Queue {
	t.Helper()
	q, err := znode.New(c, path, recipe.Config{Data: data}, znode.Lock)
	require.NoError(t, err)
	return q
}

// inBubble runs f with a server in virtual time, once with the shortcuts and once without.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("shortcuts=%v", on), func(t *testing.T) { inBubbleWith(t, on, f, opts...) })
	}
}

func inBubbleWith(t *testing.T, shortcuts bool, f func(t *testing.T, srv *zktest.Server), opts ...zktest.Option) {
	t.Helper()
	znode.SetShortcuts(shortcuts)
	defer znode.SetShortcuts(true)
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, append(opts, zktest.InMemory())...)) })
}

func acquire(ctx context.Context, q *znode.Queue) *bubble.Attempt { return acquireAs(ctx, q, entry) }

func acquireAs(ctx context.Context, q *znode.Queue, e znode.Entry) *bubble.Attempt {
	return bubble.Start(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) { return q.Acquire(ctx, e) })
}

func requireLost(t *testing.T, h *zkrecipes.Hold, reason zkrecipes.LossReason) {
	t.Helper()
	var lost *zkrecipes.LostError
	require.ErrorAs(t, h.Err(), &lost)
	require.Equal(t, reason, lost.Reason, lost)
	require.Equal(t, h.Path(), lost.Path)
	require.Equal(t, h.Err(), context.Cause(h.Context()))
	require.ErrorIs(t, h.Release(t.Context()), zkrecipes.ErrLost)
}

func requireEmpty(t *testing.T, srv *zktest.Server) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, srv.Children(path))
}

func release(t *testing.T, h *zkrecipes.Hold) {
	t.Helper()
	require.NoError(t, h.Release(t.Context()))
}

func TestAcquire_OneRoundTripWhenFree(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		h, err := q.Acquire(t.Context(), entry) // creates the parents
		require.NoError(t, err)
		release(t, h)
		synctest.Wait()
		answered := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReplyUntil(answered))
		list := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
		c := acquire(t.Context(), q)
		synctest.Wait()
		require.Equal(t, 1, list.Hits(), "create and children in flight together")
		close(answered)
		h = c.Granted(t, time.Hour)
		require.Equal(t, 1, list.Hits())
		node, ok := srv.Node(h.Path())
		require.True(t, ok)
		require.Equal(t, zkrecipes.Token(node.Stat.Czxid), h.Token())
		require.Equal(t, "me", string(node.Data))
		release(t, h)
		requireEmpty(t, srv)
	})
}

func TestAcquire_IsFairAndWakesOne(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		const n = 20
		var waiting []*bubble.Attempt
		for range n {
			waiting = append(waiting, acquire(t.Context(), q))
			synctest.Wait()
		}
		last := zkrecipes.Token(0)
		for i, w := range waiting {
			h := w.Granted(t, time.Hour)
			require.Greater(t, h.Token(), last)
			last = h.Token()
			if i+1 < n {
				waiting[i+1].Waits(t)
			}
			looks := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Proceed())
			lists := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
			// Otherwise the event may arrive before the release hands over.
			srv.SetLatency(time.Millisecond)
			release(t, h)
			synctest.Wait()
			srv.SetLatency(0)
			require.Zero(t, looks.Hits(), "a release hands over within the session")
			require.Zero(t, lists.Hits(), "in one session no waiter lists")
			looks.Remove()
			lists.Remove()
		}
		requireEmpty(t, srv)
	})
}

func TestAcquire_BetweenSessionsOneWaiterLists(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := queue(t, srv, "a"), queue(t, srv, "b")
		var waiting []*bubble.Attempt
		for i := range 10 {
			waiting = append(waiting, acquire(t.Context(), []*znode.Queue{a, b}[i%2]))
			synctest.Wait()
		}
		for i, w := range waiting {
			lists := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
			release(t, w.Granted(t, time.Hour))
			synctest.Wait()
			require.LessOrEqual(t, lists.Hits(), min(1, len(waiting)-1-i))
			lists.Remove()
		}
		requireEmpty(t, srv)
	})
}

// TestAcquire_SpuriousEventInOneSession: a false event grants nothing.
func TestAcquire_SpuriousEventInOneSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		waiting := acquire(t.Context(), q)
		for range 5 {
			waiting.Waits(t)
			srv.SendEvent(zktest.Label("a"), zktest.NodeDataChanged, holder.Path())
			waiting.Waits(t)
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
		}
		waiting.Waits(t)
		release(t, holder)
		release(t, waiting.Granted(t, time.Hour))
	})
}

// TestAcquire_RefusedAsItsContextEnds: a call whose context ends after the refusal returns an error that names both.
// The server has answered, so it is not the obstacle.
func TestAcquire_RefusedAsItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		enough := errors.New("enough")
		var last error
		for n := int64(1); ; n++ {
			ctx := bubble.EndWhenAsked(t.Context(), n, enough)
			err := acquire(ctx, q).Failed(t, 0)
			if ctx.Lives() {
				require.NotErrorIs(t, err, enough)
				break
			}
			var waited *zkrecipes.WaitError
			require.ErrorAs(t, err, &waited)
			require.ErrorIs(t, err, enough)
			last = err
		}
		require.ErrorIs(t, last, zk.ErrNoAuth)
		require.NotContains(t, last.Error(), "no answer")
		requireEmpty(t, srv)
	})
}

// TestAcquire_PredecessorCannotBeRead: the caller gets the error, and leaves nothing behind.
func TestAcquire_PredecessorCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpGetData, Path: holder.Path()},
			zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, acquire(t.Context(), queue(t, srv, "b")).Failed(t, 0), zk.ErrNoAuth)
		require.Len(t, srv.Children(path), 1)
		release(t, holder)
	})
}

// TestAcquire_ReplyLostAndTheNextServerLags: the list goes to a server that has not applied the create yet. A list
// without the waiter's contender shows neither that it is first nor that it is gone.
func TestAcquire_ReplyLostAndTheNextServerLags(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		require.NoError(t, dial(t, srv, "other").CreateAll(t.Context(), path, nil))
		ahead, fronts := join(t, srv), srv.Fronts()
		next := fronts[0].DialAs("a")
		a := queue(t, srv, "a", conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			defer func() { next = fronts[1].DialAs("a") }()
			return next(ctx, network, addr)
		}))
		fronts[1].Lag()
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
		waiting := acquire(t.Context(), a)
		time.Sleep(time.Second)
		require.Len(t, srv.Children(path), 2)
		lists := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
		fronts[1].CatchUp()
		waiting.Waits(t)
		// The search lists once, behind its barrier. The waiter lists a second time, because its list was ahead of the
		// barrier and therefore lacked its contender. If the barrier was ahead, the list has waited with it.
		require.Equal(t, 2, lists.Hits())
		require.NoError(t, srv.Delete(ahead))
		release(t, waiting.Granted(t, time.Second))
		requireEmpty(t, srv)
	}, zktest.WithFronts(3))
}

// TestAcquire_EventLost: a watch that never fires costs time, not progress.
func TestAcquire_EventLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		b := acquire(t.Context(), queue(t, srv, "b"))
		b.Waits(t)
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("b"), holder.Path()))
		release(t, holder)
		b.Waits(t)
		from := time.Now()
		release(t, b.Granted(t, time.Hour))
		require.LessOrEqual(t, time.Since(from), 30*time.Second)
	})
}

func TestAcquire_ServerShedsLoad_IsNotAskedWithoutPause(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		refused := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: 5},
			zktest.Fail(zktest.Code(zkrecipes.CodeThrottled)))
		began := time.Now()
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		require.Equal(t, 5, refused.Hits())
		// Each of them is randomly up to half longer or shorter.
		const pauses = (10 + 20 + 40 + 80 + 160) * time.Millisecond
		require.InDelta(t, pauses, time.Since(began), float64(pauses/2+time.Microsecond))
		release(t, h)
		requireEmpty(t, srv)
	})
}

// TestAcquire_EachContenderIsDeleted_JoinsWithPauses: whoever deletes each new contender, such as a script that goes
// wrong, must not make a waiter keep the servers busy.
func TestAcquire_EachContenderIsDeleted_JoinsWithPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		created := srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpCreate, Times: 11},
			zktest.After(func(zktest.Request) {
				for _, name := range srv.Children(path) {
					if contender := path + "/" + name; contender != holder.Path() {
						assert.NoError(t, srv.Delete(contender))
					}
				}
			}))
		began := time.Now()
		b := acquire(t.Context(), queue(t, srv, "b"))
		for created.Hits() < 11 && time.Since(began) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		// The first five are not followed by one. Each of the others is randomly up to half longer or shorter.
		const pauses = (10 + 20 + 40 + 80 + 160) * time.Millisecond
		require.InDelta(t, pauses, time.Since(began), float64(pauses/2+2*time.Millisecond))
		b.Waits(t)
		release(t, holder)
		release(t, b.Granted(t, time.Second))
		requireEmpty(t, srv)
	})
}

// TestRelease_NotAllowed_IsLogged: the others wait until the session ends, and the log shows why.
func TestRelease_NotAllowed_IsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var log bytes.Buffer
		q := queue(t, srv, "a", bubble.Warnings(&log))
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		refused := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1}, zktest.Fail(-102))
		require.ErrorIs(t, h.Release(t.Context()), zk.ErrNoAuth)
		time.Sleep(time.Minute)
		require.Greater(t, refused.Hits(), 5)
		synctest.Wait() // a separate goroutine writes the log
		require.Equal(t, 1, strings.Count(log.String(), "not authorized to delete"), log.String())
		require.Contains(t, log.String(), h.Path())
		refused.Remove()
		time.Sleep(10 * time.Second)
		requireEmpty(t, srv)
	})
}

func TestAcquire_WaitErrorNamesTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		acquire(t.Context(), queue(t, srv, "b")).Waits(t)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		_, err := queue(t, srv, "c").Acquire(ctx, entry)
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, err, &waited)
		require.Equal(t, 3, waited.Position)
		require.Equal(t, 3, waited.Queue)
		require.Equal(t, holder.Path(), waited.Holder.Path)
		require.Equal(t, "me", waited.Holder.Name)
		require.Equal(t, holder.Token(), waited.Holder.Token)
		require.ErrorContains(t, err, "enough")
		synctest.Wait()
		require.Len(t, srv.Children(path), 2)
	})
}

// TestAcquire_GivesUpBeforeItIsProven_IsFirst: the turn of a caller has come, but its session is not proven in time.
// Its place is then the first, not the one in the list that it read last.
func TestAcquire_GivesUpBeforeItIsProven_IsFirst(t *testing.T) {
	afterSections := func(n int) func(*testing.T, *zktest.Server, func() *bubble.Attempt, func()) *bubble.Attempt {
		return func(t *testing.T, srv *zktest.Server, lock func() *bubble.Attempt, unproven func()) *bubble.Attempt {
			for range n {
				h := lock().Granted(t, time.Hour)
				synctest.Wait()
				release(t, h)
				synctest.Wait()
			}
			lateAnswer(srv, zktest.OpCreate, unproven)
			return lock()
		}
	}
	for name, begin := range map[string]func(*testing.T, *zktest.Server, func() *bubble.Attempt, func()) *bubble.Attempt{
		"by a list":       afterSections(1),
		"by the shortcut": afterSections(5),
		"by an event": func(t *testing.T, srv *zktest.Server, lock func() *bubble.Attempt, unproven func()) *bubble.Attempt {
			holder := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
			mine := lock()
			time.Sleep(2 * bubble.Timeout) // the proof has lapsed
			mine.Waits(t)
			unproven()
			release(t, holder)
			return mine
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				q := queue(t, srv, "a")
				ctx, cancel := context.WithCancel(t.Context())
				mine := begin(t, srv, func() *bubble.Attempt { return acquire(ctx, q) }, func() {
					srv.Intercept(zktest.Match{From: zktest.Label("a"), Where: proves, Times: -1}, zktest.Fail(zktest.CodeThrottled))
				})
				time.Sleep(bubble.Timeout / 2)
				mine.Waits(t)
				cancel()
				var waited *zkrecipes.WaitError
				require.ErrorAs(t, mine.Failed(t, time.Second), &waited)
				require.Equal(t, []int{1, 1}, []int{waited.Position, waited.Queue}, waited)
				require.Empty(t, waited.Holder)
			})
		})
	}
}

// TestTry_BeatenToIt: another contender comes between the list and the create. Nothing may stay behind.
func TestTry_BeatenToIt(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := queue(t, srv, "a"), queue(t, srv, "b")
		release(t, acquire(t.Context(), a).Granted(t, time.Hour))
		var h *zkrecipes.Hold
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpCreate}, zktest.Before(func(zktest.Request) {
			_, err := srv.Create(path+"/lock-0000000000", []byte("other"), zktest.Persistent)
			require.NoError(t, err)
		}))
		_, err := b.Try(t.Context(), entry)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.Len(t, srv.Children(path), 1, "gone when Try returns")
		require.Nil(t, h)
	})
}

func TestHold_ClientClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		waiting := acquire(t.Context(), q)
		waiting.Waits(t)
		require.NoError(t, q.Client().Close())
		requireLost(t, h, zkrecipes.LossClosed)
		require.ErrorIs(t, h.Err(), zkrecipes.ErrClosed)
		require.EqualError(t, waiting.Failed(t, 0), path+": client closed")
		require.ErrorIs(t, waiting.Err, zkrecipes.ErrClosed)
		_, err := q.Acquire(t.Context(), entry)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		requireEmpty(t, srv)
	})
}

// TestAcquire_SubClosed: the error names the path even if the client it came from is open.
func TestAcquire_SubClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := dial(t, srv, "a").Sub("/of")
		require.NoError(t, err)
		q, err := znode.New(sub, path, recipe.Config{}, znode.Lock)
		require.NoError(t, err)
		require.NoError(t, sub.Close())
		_, err = q.Acquire(t.Context(), entry)
		require.EqualError(t, err, path+": client closed")
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

func TestTxn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, err := srv.Create("/config", []byte("old"), zktest.Persistent)
		require.NoError(t, err)
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		set := zkrecipes.OpSet("/config", []byte("new"), -1)
		results, err := h.Txn(t.Context(), set)
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.EqualValues(t, 1, results[0].Stat.Version)

		_, err = h.Txn(t.Context(), zkrecipes.OpSet("/config", []byte("x"), 7))
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
		require.NoError(t, h.Err())

		// The node is deleted in the moment before the transaction: too late for any look at the clock.
		srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Delete(h.Path()))
		}))
		_, err = h.Txn(t.Context(), zkrecipes.OpSet("/config", []byte("stale"), -1))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		node, _ := srv.Node("/config")
		require.Equal(t, "new", string(node.Data))
		requireLost(t, h, zkrecipes.LossNodeDeleted)
	})
}

// TestAcquire_CancelledAtRandomMoments leaves no node, no watch beyond one per path, and, since this is a bubble, no
// goroutine.
func TestAcquire_CancelledAtRandomMoments(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		q := queue(t, srv, "b")
		jitter := srv.Intercept(zktest.Match{From: zktest.Label("b"), Times: -1}, zktest.Delay(time.Millisecond))
		defer jitter.Remove()
		random := rand.New(rand.NewPCG(1, 2))
		for range 10 {
			var wg sync.WaitGroup
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(300*time.Millisecond))))
				wg.Go(func() {
					defer cancel()
					h, err := q.Acquire(ctx, entry)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Nil(t, h)
				})
			}
			wg.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{strings.TrimPrefix(holder.Path(), path+"/")}, srv.Children(path))
		require.LessOrEqual(t, len(srv.Watchers(holder.Path())), 2, "the holder's and one for all waiters")
		total, paths := srv.Watches()
		require.LessOrEqual(t, total, paths+1, "the holder's node is watched by two sessions")
		require.NoError(t, holder.Err())
	})
}

func TestAcquire_TenThousandWaiters(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a", conn.WithSessionTimeout(40*time.Second))
		holder := acquire(t.Context(), q).Granted(t, time.Hour)
		n := 10_000
		if bubble.Race {
			n = 1_000 // the race detector makes each of them ten times as expensive
		}
		served := make(chan zkrecipes.Token, n)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				h, err := q.Acquire(t.Context(), entry)
				if err != nil {
					served <- 0
					return
				}
				served <- h.Token()
				_ = h.Release(t.Context()) // checked below by what is left
			})
		}
		synctest.Wait()
		require.Len(t, srv.Children(path), n+1)
		release(t, holder)
		last := zkrecipes.Token(0)
		for range n {
			token := <-served
			require.Greater(t, token, last)
			last = token
		}
		wg.Wait()
		requireEmpty(t, srv)
	})
}

func TestNew_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		for _, bad := range []string{"", "/", "rel", "/a/", "/a//b", "/a/../b", "/a\x00"} {
			_, err := znode.New(c, bad, recipe.Config{}, znode.Lock)
			require.Error(t, err, fmt.Sprintf("%q", bad))
		}
		_, err := znode.New(nil, path, recipe.Config{}, znode.Lock)
		require.Error(t, err)
	})
}

// TestAcquire_ServerFault_LeavesNothing: the contender was created although the reply reports an error.
func TestAcquire_ServerFault_LeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var armed atomic.Bool
		q := queue(t, srv, "a", trial.Through(srv, trial.Pipe{OnRead: func(reply []byte) {
			if len(reply) > 24 && strings.HasPrefix(string(reply[24:]), path+"/_c_") && armed.CompareAndSwap(true, false) {
				copy(reply[16:], []byte{0xff, 0xff, 0xff, 0xfb}) // -5, marshalling
			}
		}}))
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		require.NoError(t, h.Release(t.Context()))
		armed.Store(true)
		_, err := q.Acquire(t.Context(), entry)
		require.ErrorIs(t, err, zkrecipes.Code(-5))
		require.False(t, armed.Load())
		time.Sleep(time.Second)
		require.Empty(t, srv.Children(path))
		require.NoError(t, acquire(t.Context(), q).Granted(t, time.Hour).Release(t.Context()))
	})
}

// The search for the create finds nothing, and the server sheds load when it is sent again. In the meantime the first
// copy is executed after all. Then the caller gives up.
func TestAcquire_CancelledBeforeTheCreateIsSentAgain_LateOneIsSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := dial(t, srv, "a")
		q, err := znode.New(a, path, recipe.Config{}, znode.Lock)
		require.NoError(t, err)
		section(t, q)
		lost := ""
		var arrives atomic.Bool
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-", Where: func(r zktest.Request) bool {
			lost = r.Path
			return true
		}}, zktest.DropRequest())
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-", Times: -1, Where: func(zktest.Request) bool {
			return !arrives.Load()
		}}, zktest.Fail(zktest.CodeThrottled))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := acquire(ctx, q)
		time.Sleep(time.Second)
		waiting.Waits(t)
		arrives.Store(true)
		_, err = a.Create(t.Context(), lost, nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, waiting.Failed(t, time.Minute), context.Canceled)
		requireEmpty(t, srv)
	})
}

// During an outage an acquisition that gives up names the server, whatever it was waiting for.
func TestAcquire_GivesUpInAnOutage_NamesTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var down atomic.Bool
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if down.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return srv.DialAs("a")(ctx, network, address)
		}
		refused := fmt.Sprintf("context deadline exceeded (connect to %s: %v)", srv.Addr(), syscall.ECONNREFUSED)
		q := queue(t, srv, "a", conn.WithDialer(dial))
		h := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}

		waiting := acquire(within(5*time.Second), q)
		waiting.Waits(t)
		down.Store(true)
		srv.Cut(zktest.Label("a"))
		err := waiting.Failed(t, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "gave up at place 2: held by \"me\"")
		require.ErrorContains(t, err, "2 in the queue: "+refused)

		for range 2 { // while the session may still be alive, and after its end
			err = acquire(within(time.Second), q).Failed(t, time.Minute)
			require.EqualError(t, err, path+": gave up without a place in the queue: "+refused)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			time.Sleep(time.Minute)
		}

		down.Store(false)
		time.Sleep(time.Minute)
		srv.Stall(zktest.Label("a"), zktest.Both)
		err = acquire(within(time.Second), q).Failed(t, time.Minute)
		require.ErrorContains(t, err,
			path+": gave up without a place in the queue: context deadline exceeded (no answer from "+
				srv.Addr()+", which last answered ")
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "the caller is out of the queue")
		srv.Heal(zktest.Label("a"))
		time.Sleep(time.Minute)
		release(t, h)
		requireEmpty(t, srv)
	})
}

// When the server answers, it is not the obstacle.
func TestAcquire_GivesUpBehindAHolder_NamesTheHolderAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := acquire(ctx, queue(t, srv, "a"))
		second.Waits(t)
		third := acquire(ctx, eager(t, srv, "c")) // with shortcuts, it looks early
		require.Regexp(t, `2 in the queue: context deadline exceeded$`, second.Failed(t, time.Minute).Error())
		require.Regexp(t, `3 in the queue: context deadline exceeded$`, third.Failed(t, time.Minute).Error())
		release(t, h)
	})
}

// TestAcquire_ListRefused_NamesThePathAsTheCallerDoes: the error names the path relative to the caller's client.
func TestAcquire_ListRefused_NamesThePathAsTheCallerDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		queues := []*znode.Queue{at(t, c, ""), at(t, c, "/app")}
		section(t, queues[0])
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		for _, q := range queues {
			err := acquire(t.Context(), q).Failed(t, time.Minute)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			var failed *zkrecipes.OpError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, q.Path(), failed.Path)
			require.ErrorContains(t, err, "children "+q.Path())
		}
	})
}

// TestAcquire_AtTheDoorOfASemaphore: a mutex at that path shares no list with the door, whose list is followed by a
// read of the leases.
func TestAcquire_AtTheDoorOfASemaphore(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv, "a")
		q, err := znode.New(c, "/app/s/locks", recipe.Config{}, znode.Lock)
		require.NoError(t, err)
		h := acquire(t.Context(), q).Granted(t, time.Hour)
		m, err := znode.NewSemaphore(c, "/app/s", recipe.Config{}, nil)
		require.NoError(t, err)
		lease := bubble.Start(t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
			return m.Acquire(ctx,
				znode.Leases{
					Count: 1,
					Limit: func(context.Context, *session.Session) (int, *session.Watch, error) { return 1, nil, nil },
				})
		})
		lease.Waits(t)
		release(t, h)
		release(t, lease.Granted(t, time.Minute))
	})
}

// TestAcquireBy_NodeGoneAfterTheTurn_IsALostHold: others rely on the turn, so the caller does not queue again, even if
// a new connection has come up meanwhile, or the proof had to be awaited. The hold reports that the node is gone.
func TestAcquireBy_NodeGoneAfterTheTurn_IsALostHold(t *testing.T) {
	for name, disturb := range map[string]func(srv *zktest.Server){
		"new connection": func(srv *zktest.Server) {
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
		},
		"not proven": func(srv *zktest.Server) {
			trial.CutOff(srv, zktest.Label("a"))
			time.Sleep(bubble.Timeout * 7 / 10)
			srv.Accept(zktest.Label("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				turns := 0
				h, err := queue(t, srv, "a").AcquireBy(t.Context(), entry, func(_ context.Context, w *znode.Waiter) error {
					if turns++; turns > 1 {
						return errors.New("a second turn")
					}
					disturb(srv)
					return srv.Delete(w.Path())
				})
				require.NoError(t, err)
				require.Equal(t, 1, turns)
				<-h.Done()
				requireLost(t, h, zkrecipes.LossNodeDeleted)
			})
		})
	}
}
