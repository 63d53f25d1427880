package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/barrier"

// inBubble runs f with a server, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, zktest.InMemory())) })
}

// open returns the barrier as seen by a separate client.
func open(t *testing.T, srv *zktest.Server, label string, opts ...barrier.Option) *barrier.Barrier {
	t.Helper()
	b, err := barrier.New(bubble.Dial(t, srv, label), path, opts...)
	require.NoError(t, err)
	return b
}

// begin calls f on another goroutine. The returned function waits until all goroutines rest, and reports whether f has
// returned.
func begin(f func() error) (over func() (bool, error)) {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f()
	}()
	return func() (bool, error) {
		synctest.Wait()
		select {
		case <-done:
			return true, err
		default:
			return false, nil
		}
	}
}

func requireWaits(t *testing.T, over func() (bool, error)) {
	t.Helper()
	done, err := over()
	require.False(t, done, "want it to wait: %v", err)
}

func requireDone(t *testing.T, over func() (bool, error)) {
	t.Helper()
	done, err := over()
	require.True(t, done)
	require.NoError(t, err)
}

func TestBarrier(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := open(t, srv, "a"), open(t, srv, "b")
		require.NoError(t, b.Wait(t.Context()), "it is down")
		require.NoError(t, a.Remove(t.Context()))
		require.NoError(t, a.Set(t.Context()))
		require.NoError(t, b.Set(t.Context()), "it is up")
		over := begin(func() error { return b.Wait(t.Context()) })
		requireWaits(t, over)
		time.Sleep(time.Hour)
		requireWaits(t, over)
		require.NoError(t, a.Remove(t.Context()))
		requireDone(t, over)
		watches, _ := srv.Watches()
		require.Zero(t, watches)
	})
}

// A server that lags behind may not know that the barrier is up.
func TestWait_AsksTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "b")
		caughtUp := make(chan struct{})
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpSync}, zktest.DelayUntil(caughtUp))
		over := begin(func() error { return b.Wait(t.Context()) })
		requireWaits(t, over)
		require.NoError(t, open(t, srv, "a").Set(t.Context()))
		close(caughtUp)
		requireWaits(t, over)
	})
}

// Without the leader's answer, a barrier that this server does not know may be up.
func TestWait_TheLeaderDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "b")
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpSync}, zktest.Fail(zktest.CodeQuotaExceeded))
		require.ErrorContains(t, b.Wait(t.Context()), "sync "+path)
	})
}

func TestWait_EventLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := open(t, srv, "a"), open(t, srv, "b")
		require.NoError(t, a.Set(t.Context()))
		over := begin(func() error { return b.Wait(t.Context()) })
		requireWaits(t, over)
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("b"), path))
		require.NoError(t, a.Remove(t.Context()))
		requireWaits(t, over)
		time.Sleep(3 * bubble.Timeout)
		requireDone(t, over)
	})
}

// The barrier is lowered and raised again before the waiter can look: it was down, so the waiter is released. That is
// also so if the event is lost with the connection, or the session ends meanwhile.
func TestWait_LoweredAndRaisedAtOnce(t *testing.T) {
	for name, before := range map[string]func(srv *zktest.Server){
		"connected":         func(*zktest.Server) {},
		"disconnected":      func(srv *zktest.Server) { srv.Cut(zktest.Label("b")) },
		"the session ended": func(srv *zktest.Server) { srv.Expire(srv.SessionOf("b")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := open(t, srv, "a"), open(t, srv, "b")
				require.NoError(t, a.Set(t.Context()))
				over := begin(func() error { return b.Wait(t.Context()) })
				requireWaits(t, over)
				before(srv)
				require.NoError(t, srv.Delete(path))
				_, err := srv.Create(path, nil, zktest.Persistent)
				require.NoError(t, err)
				time.Sleep(time.Second)
				requireDone(t, over)
			})
		})
	}
}

// The waiter continues in the next session, and the end of its own session does not release it.
func TestWait_SessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := open(t, srv, "a"), open(t, srv, "b")
		require.NoError(t, a.Set(t.Context()))
		over := begin(func() error { return b.Wait(t.Context()) })
		requireWaits(t, over)
		srv.Expire(srv.SessionOf("b"))
		time.Sleep(time.Minute)
		requireWaits(t, over)
		srv.Cut(zktest.Everyone)
		time.Sleep(time.Minute)
		requireWaits(t, over)
		require.NoError(t, a.Remove(t.Context()))
		requireDone(t, over)
	})
}

func TestEphemeral(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := open(t, srv, "a", barrier.WithEphemeral()), open(t, srv, "b", barrier.WithEphemeral())
		require.NoError(t, a.Set(t.Context()))
		require.NoError(t, a.Set(t.Context()), "it is its own")
		require.ErrorIs(t, b.Set(t.Context()), zk.ErrNodeExists)
		over := begin(func() error { return b.Wait(t.Context()) })
		requireWaits(t, over)
		srv.Expire(srv.SessionOf("a"))
		requireDone(t, over)
		require.NoError(t, b.Set(t.Context()))
	})
}

// A barrier that ends with a session does not count as one that must stay up.
func TestSet_StaysUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := open(t, srv, "a"), open(t, srv, "b", barrier.WithEphemeral())
		require.NoError(t, b.Set(t.Context()))
		err := a.Set(t.Context())
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "is removed when that session ends")
		require.NoError(t, b.Remove(t.Context()))
		require.NoError(t, a.Set(t.Context()))
		require.NoError(t, a.Set(t.Context()))
		err = b.Set(t.Context())
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "stays up until Remove")
	})
}

// The barrier is not raised again after another client has removed it.
func TestSet_ReplyLost(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		for _, lost := range []string{"not applied", "applied", "applied, and removed since"} {
			t.Run(fmt.Sprintf("%s/ephemeral=%v", lost, ephemeral), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var opts []barrier.Option
					if ephemeral {
						opts = append(opts, barrier.WithEphemeral())
					}
					a := open(t, srv, "a", opts...)
					require.NoError(t, a.Set(t.Context()))
					require.NoError(t, a.Remove(t.Context()))
					creates := zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate, Path: path}
					action := zktest.DropReply()
					if lost == "not applied" {
						action = zktest.DropRequest()
					}
					srv.Intercept(creates, action)
					if lost == "applied, and removed since" {
						srv.Intercept(zktest.Match{From: zktest.Label("a")},
							zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete(path)) }))
					}
					err := a.Set(t.Context())
					if lost == "applied" {
						require.NoError(t, err)
						require.True(t, srv.Exists(path))
					} else {
						require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
						require.False(t, srv.Exists(path))
					}
				})
			})
		}
	}
}

// While the request is lost, another client raises a barrier that outlives its session.
func TestSet_RequestLost_OtherLifetime(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b, err := barrier.New(bubble.Dial(t, srv, "a"), path, barrier.WithEphemeral())
		require.NoError(t, err)
		_, err = srv.Create("/app", nil, zktest.Persistent)
		require.NoError(t, err)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate}, zktest.DropRequest())
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpExists}, zktest.Before(func(zktest.Request) {
			_, _ = srv.Create(path, nil, zktest.Persistent)
		}))
		require.ErrorIs(t, b.Set(t.Context()), zkrecipes.ErrUnknownOutcome)
		require.True(t, srv.Exists(path))
	})
}

// A Set that the server has refused because of its session continues in the next session.
func TestSet_SessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "a")
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreate}, zktest.Fail(zktest.CodeSessionExpired))
		require.NoError(t, b.Set(t.Context()))
		require.True(t, srv.Exists(path))
	})
}

// Whether the parent was created leaves no doubt about the barrier.
func TestSet_SessionEndsWhileAParentIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "a")
		first := srv.SessionOf("a")
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpCreateContainer}, zktest.HoldReply(time.Hour))
		over := begin(func() error { return b.Set(t.Context()) })
		requireWaits(t, over)
		srv.Expire(first)
		time.Sleep(time.Minute)
		requireDone(t, over)
		require.NotEqual(t, first, srv.SessionOf("a"))
		require.True(t, srv.Exists(path))
	})
}

// A copy of the delete is in doubt. The node that exists now may be another barrier, which stays up.
func TestRemove_RequestLostAndChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "a")
		require.NoError(t, b.Set(t.Context()))
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DropRequest())
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set(path, []byte("x")))
		}))
		require.ErrorIs(t, b.Remove(t.Context()), zkrecipes.ErrUnknownOutcome)
		require.True(t, srv.Exists(path))
	})
}

// A leader that has been replaced still answers reads and syncs, but may not know the barrier. Remove used to report
// success then, and the waiters stayed blocked.
func TestRemove_AsksAQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "a")
		require.NoError(t, b.Set(t.Context()))
		unknown := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Fail(zktest.CodeNoNode))
		noQuorum := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.DelayUntil(t.Context().Done()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Remove(ctx), context.DeadlineExceeded)
		noQuorum.Remove()
		unknown.Remove()
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeNoNode))
		require.NoError(t, b.Remove(t.Context()))
		require.False(t, srv.Exists(path))
	})
}

// Whatever breaks, a waiter is released only if the barrier was down at a moment of its call, and each waiter is
// released in the end.
func TestWait_UnderFaults(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				random := rand.New(rand.NewPCG(seed, 3))
				srv.SetLatency(5 * time.Millisecond)
				op := open(t, srv, "op")
				type call struct{ from, to time.Time }
				var mu sync.Mutex
				var calls []call
				var waiters sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				for _, label := range []string{"a", "b", "c"} {
					b := open(t, srv, label)
					waiters.Go(func() {
						for ctx.Err() == nil {
							c := call{from: time.Now()}
							if err := b.Wait(ctx); err != nil {
								if !errors.Is(err, context.Canceled) {
									t.Error(err)
								}
								return
							}
							c.to = time.Now()
							mu.Lock()
							calls = append(calls, c)
							mu.Unlock()
							time.Sleep(30 * time.Millisecond)
						}
					})
				}
				for range 60 {
					err := op.Set(t.Context())
					require.True(t, err == nil || errors.Is(err, zkrecipes.ErrUnknownOutcome), err)
					for range 3 {
						who := zktest.Label([]string{"a", "b", "c", "op"}[random.IntN(4)])
						switch random.IntN(6) {
						case 0:
							srv.Cut(who)
						case 1:
							srv.Intercept(zktest.Match{From: who, Skip: random.IntN(3)}, zktest.DropReply())
						case 2:
							srv.Intercept(zktest.Match{From: who, Skip: random.IntN(3)}, zktest.DropRequest())
						case 3:
							srv.Expire(srv.SessionOf([]string{"a", "b", "c"}[random.IntN(3)]))
						case 4:
							srv.Intercept(zktest.Match{From: who}, zktest.HoldReply(2*time.Second))
						case 5:
							srv.Restart()
						}
						time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
					}
					require.NoError(t, op.Remove(t.Context()))
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
				time.Sleep(3 * bubble.Timeout) // longer than any waiter waits for an event
				stop()
				waiters.Wait()
				ups := upTimes(srv)
				require.Greater(t, len(calls), 20)
				for _, c := range calls {
					for _, up := range ups {
						require.False(t, up[0].Before(c.from) && up[1].After(c.to),
							"let go at %v while it was up from %v to %v", c, up[0], up[1])
					}
				}
				require.True(t, slices.IsSortedFunc(ups, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) }))
			})
		})
	}
}

// upTimes returns the periods during which the barrier was up.
func upTimes(srv *zktest.Server) (ups [][2]time.Time) {
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			switch {
			case c.Path != path:
			case c.Kind == zktest.ChangeCreate:
				ups = append(ups, [2]time.Time{txn.Time})
			case c.Kind == zktest.ChangeDelete:
				ups[len(ups)-1][1] = txn.Time
			}
		}
	}
	return ups
}

// A caller that gives up leaves no watch on a barrier that is up. Another caller keeps waiting.
func TestWait_LeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := open(t, srv, "a")
		require.NoError(t, b.Set(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		over := begin(func() error { return b.Wait(t.Context()) })
		gaveUp := begin(func() error { return b.Wait(ctx) })
		time.Sleep(time.Hour) // with many reads
		cancel()
		_, err := gaveUp()
		require.ErrorIs(t, err, context.Canceled)
		requireWaits(t, over)
		require.Len(t, srv.Watchers(path), 1)
		require.NoError(t, b.Remove(t.Context()))
		requireDone(t, over)
		require.NoError(t, b.Set(t.Context()))
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
		synctest.Wait()
		require.Empty(t, srv.Watchers(path))
	})
}
