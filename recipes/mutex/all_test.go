package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles runs a test in virtual time, with the mutexes on one path of two ensembles.
func ensembles(t *testing.T, test func(t *testing.T, x, y *mutex.Mutex)) {
	synctest.Test(t, func(t *testing.T) {
		first, second := zktest.Run(t, zktest.InMemory()), zktest.Run(t, zktest.InMemory())
		test(t, newMutex(t, bubble.Dial(t, first, "a"), mutex.WithReentrance()), newMutex(t, bubble.Dial(t, second, "a"), mutex.WithReentrance()))
		bubble.Clean(t, first, path)
		bubble.Clean(t, second, path)
	})
}

// briefly bounds a call that must not wait.
func briefly(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestLock_Nested_TellsEnsemblesApart(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		outer := lock(t, x)
		other, err := y.Lock(outer.Context())
		require.NoError(t, err)
		for _, c := range []struct {
			m    *mutex.Mutex
			want *zkrecipes.Hold
		}{{x, outer}, {y, other}} {
			h, err := c.m.Lock(briefly(other.Context(), t))
			require.NoError(t, err, "inside both")
			assert.Equal(t, c.want.Path(), h.Path())
			require.NoError(t, h.Release(t.Context()))
		}
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
	})
}

func TestLockAll_OnePathOfTwoEnsembles(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		all, err := mutex.LockAll(briefly(t.Context(), t), x, y, x, y)
		require.NoError(t, err)
		for _, m := range []*mutex.Mutex{x, y} {
			h, err := m.Lock(briefly(all.Context(), t))
			require.NoError(t, err, "nested")
			require.Equal(t, all.Of(m).Path(), h.Path())
			require.NoError(t, h.Release(t.Context()))
		}
		require.NotEqual(t, all.Of(x).Path(), all.Of(y).Path())
		require.NoError(t, all.Release(t.Context()))
	})
}

// A contender that would wait for a hold of the same context is refused at once: that hold ends after the wait.
func TestLock_OnePathThroughTwoClients_WouldWaitForItself(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y := newMutex(t, a), newMutex(t, b)
		_, err := mutex.LockAll(briefly(t.Context(), t), x, y)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.ErrorContains(t, err, path)
		bubble.Clean(t, srv, path)

		h := lock(t, x)
		_, err = y.Lock(briefly(h.Context(), t))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = y.TryLock(h.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "a try does not wait")
		waiter := bubble.Start(context.WithoutCancel(h.Context()), func(ctx context.Context) (*zkrecipes.Hold, error) {
			require.NoError(t, h.Release(ctx))
			return y.Lock(ctx)
		})
		require.NoError(t, waiter.Granted(t, 0).Release(t.Context()), "the hold has ended")
	})
}

// several runs a test in virtual time with three locks of one client, one of them through Sub, held together.
func several(t *testing.T, test func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds)) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		sub, err := a.Sub("/app")
		require.NoError(t, err)
		var ms []*mutex.Mutex
		for _, c := range []struct {
			client *conn.Client
			path   string
		}{{a, "/app/y"}, {sub, "/z"}, {a, "/app/x"}} {
			m, err := mutex.New(c.client, c.path)
			require.NoError(t, err)
			ms = append(ms, m)
		}
		all, err := mutex.LockAll(t.Context(), ms...)
		require.NoError(t, err)
		_, err = srv.Create("/data", []byte("old"), zktest.Persistent)
		require.NoError(t, err)
		test(t, srv, ms, all)
		_ = all.Release(t.Context()) // some are lost
	})
}

func TestHolds_Txn_IsGuardedByAll(t *testing.T) {
	set := func(text string) zkrecipes.Op { return zkrecipes.OpSet("/data", []byte(text), -1) }
	several(t, func(t *testing.T, srv *zktest.Server, _ []*mutex.Mutex, all *mutex.Holds) {
		results, err := all.Txn(t.Context(), set("new"))
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.EqualValues(t, 1, results[0].Stat.Version)
		_, err = all.Txn(t.Context(), zkrecipes.OpDelete("/none", -1))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
		require.NoError(t, all.Err())
	})
	for i := range 3 {
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds) {
			h := all.Of(ms[i])
			srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Before(func(zktest.Request) {
				for _, n := range srv.Tree("/app") {
					if n.Stat.Czxid == int64(h.Token()) {
						require.NoError(t, srv.Delete(n.Path))
					}
				}
			}))
			_, err := all.Txn(t.Context(), set("stale"))
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			require.ErrorIs(t, all.Err(), zkrecipes.ErrLost)
			require.ErrorIs(t, all.Check(t.Context()), zkrecipes.ErrLost)
			n, _ := srv.Node("/data")
			require.Equal(t, "old", string(n.Data))
			_, err = all.Txn(t.Context(), set("stale"))
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
		})
	}
}

// A hold that was released guards nothing, although its contender may be there for a moment.
func TestHolds_Txn_OneReleased_IsFenced(t *testing.T) {
	for i := range 3 {
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds) {
			synctest.Wait()
			srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Ignore())
			ended, end := context.WithCancel(t.Context())
			end()
			require.ErrorIs(t, all.Of(ms[i]).Release(ended), context.Canceled)
			require.Len(t, srv.Tree("/app"), 7, "the contender is there")
			sent := bubble.Requests(srv)
			_, err := all.Txn(t.Context(), zkrecipes.OpSet("/data", nil, -1))
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			require.Zero(t, sent.Hits())
			sent.Remove()
			srv.Cut(zktest.Everyone) // the deletion is sent again
		})
	}
}

// The reply is lost, and so is a hold: the ops may have been applied before.
func TestHolds_Txn_ReplyAndOneHoldLost_IsUnknown(t *testing.T) {
	several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds) {
		h := all.Of(ms[0]) // of a client without a chroot, and not the first by path
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/data$"}, zktest.After(func(zktest.Request) {
			require.NoError(t, srv.Delete(h.Path()))
			srv.Cut(zktest.Everyone)
		}))
		_, err := all.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("new"), -1))
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
		n, _ := srv.Node("/data")
		require.Equal(t, "new", string(n.Data))
	})
}

func TestLockAll_LeavesNothingOnItsContext(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
		ctx := bubble.Last(t.Context())
		all, err := mutex.LockAll(ctx, newMutex(t, a))
		require.NoError(t, err)
		require.NoError(t, all.Release(t.Context()))
		require.Zero(t, ctx.Waiting())
	})
}

// The hold has ended, and its contender cannot be deleted yet. A caller whose context descends from it waits for the deletion
// like any other.
func TestLock_BehindAnEndedHoldOfItsContext_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := lock(t, newMutex(t, a))
		synctest.Wait()
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Delay(time.Second))
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, h.Release(ended), context.Canceled)
		waiting := bubble.Start(context.WithoutCancel(h.Context()), newMutex(t, b).Lock)
		waiting.Waits(t)
		require.NoError(t, waiting.Granted(t, time.Second).Release(t.Context()))
	})
}

// The ensemble does not say whether the contender is there. The call waits, as it would for any other contender.
func TestLock_WouldPerhapsWaitForItself_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := lock(t, newMutex(t, a))
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpSync, Path: h.Path()}, zktest.Fail(zktest.CodeNoAuth))
		waiting := bubble.Start(h.Context(), newMutex(t, b).Lock)
		waiting.Waits(t)
		require.NoError(t, h.Release(t.Context()))
		require.ErrorIs(t, waiting.Failed(t, 0), zkrecipes.ErrReleased, "its context has ended")
	})
}

func TestHolds_OfSeveralClients_HaveNoTxn(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		all, err := mutex.LockAll(t.Context(), x, y)
		require.NoError(t, err)
		_, err = all.Txn(t.Context())
		require.ErrorContains(t, err, "want mutexes of one client")
		require.NoError(t, all.Check(t.Context()))
		require.NoError(t, all.Release(t.Context()))
	})
}

func TestHolds_Of(t *testing.T) {
	several(t, func(t *testing.T, _ *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds) {
		seen := map[zkrecipes.Token]bool{}
		for _, m := range ms {
			token := all.Of(m).Token()
			require.Positive(t, token)
			seen[token] = true
		}
		require.Len(t, seen, 3)
		other, err := mutex.New(bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "o"), path)
		require.NoError(t, err)
		require.Nil(t, all.Of(other))
	})
}

// TestHolds_ValidUntil_IsTheFirstDeadline: the holds are in two sessions, and one of them is cut off.
func TestHolds_ValidUntil_IsTheFirstDeadline(t *testing.T) {
	for _, which := range []string{"a", "b"} {
		pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
			x, err := mutex.New(a, "/app/x")
			require.NoError(t, err)
			y, err := mutex.New(b, "/app/y")
			require.NoError(t, err)
			all, err := mutex.LockAll(t.Context(), x, y)
			require.NoError(t, err)
			srv.Stall(zktest.Label(which), zktest.Both)
			time.Sleep(bubble.Timeout / 2)
			first, last := all.Of(x).ValidUntil(), all.Of(y).ValidUntil()
			if which == "b" {
				first, last = last, first
			}
			require.True(t, first.Before(last))
			require.Equal(t, first, all.ValidUntil())
			<-all.Done()
			require.Equal(t, first, time.Now())
			var lost *zkrecipes.LostError
			require.ErrorAs(t, all.Err(), &lost)
			require.Equal(t, first, lost.At, "the deadline")
			_ = all.Release(t.Context()) // one is lost
		})
	}
}

// The clients have other roots, one of which may begin like the other.
func TestHolds_Txn_OtherRoots_IsRefusedAtOnce(t *testing.T) {
	for _, root := range []string{"/application", "/other"} {
		testTxnOfOtherRoots(t, root)
	}
}

func testTxnOfOtherRoots(t *testing.T, root string) {
	t.Helper()
	pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
		app, err := a.Sub("/app")
		require.NoError(t, err)
		application, err := a.Sub(root)
		require.NoError(t, err)
		first, err := mutex.New(app, "/lock")
		require.NoError(t, err)
		second, err := mutex.New(application, "/lock")
		require.NoError(t, err)
		all, err := mutex.LockAll(t.Context(), first, second)
		require.NoError(t, err)
		_, err = all.Txn(t.Context())
		require.ErrorContains(t, err, "want mutexes of one client")
		require.NoError(t, all.Release(t.Context()))
	})
}

// TestHolds_Err_NamesTheLoss: whichever hold was lost, and also if others were released before.
func TestHolds_Err_NamesTheLoss(t *testing.T) {
	for lost := range 3 {
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *mutex.Holds) {
			require.NoError(t, all.Err())
			for i, m := range ms {
				if i != lost {
					require.NoError(t, all.Of(m).Release(t.Context()))
					require.Equal(t, zkrecipes.ErrReleased, all.Err())
				}
			}
			srv.Expire(srv.SessionOf("a"))
			<-all.Of(ms[lost]).Done()
			var why *zkrecipes.LostError
			require.ErrorAs(t, all.Err(), &why)
			require.Equal(t, all.Of(ms[lost]).Path(), why.Path)
		})
	}
}

// TestLockAll_TransactionOnItsWay_HandsNothingOver: every hold guards it, so a waiter of the same session waits for the node of
// each of them.
func TestLockAll_TransactionOnItsWay_HandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		_, err := srv.Create("/x", nil, zktest.Persistent)
		require.NoError(t, err)
		one, err := mutex.New(c, "/app/1")
		require.NoError(t, err)
		two, err := mutex.New(c, "/app/2")
		require.NoError(t, err)
		all, err := mutex.LockAll(t.Context(), one, two)
		require.NoError(t, err)
		waiting := []*bubble.Attempt{bubble.Start(t.Context(), one.Lock), bubble.Start(t.Context(), two.Lock)}
		for _, w := range waiting {
			w.Waits(t)
		}
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lock-"}, zktest.HoldReply(time.Second))
		go func() { _, _ = all.Txn(t.Context(), zkrecipes.OpSet("/x", nil, -1)) }()
		synctest.Wait()
		gate := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 2}, zktest.DelayUntil(gate))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = all.Release(ended)
		for _, w := range waiting {
			w.Waits(t)
		}
		close(gate)
		for _, w := range waiting {
			require.NoError(t, w.Granted(t, 2*time.Second).Release(t.Context()))
		}
	})
}
