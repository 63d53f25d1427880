package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/lock"

// at returns the mutex at a path.
func at(t testing.TB, c *conn.Client, path string, opts ...mutex.Option) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, path, opts...)
	require.NoError(t, err)
	return m
}

// lockAll acquires locks that must be free.
func lockAll(t testing.TB, locks []zkrecipes.Part) *multilock.Holds {
	t.Helper()
	all, err := multilock.LockAll(t.Context(), locks...)
	require.NoError(t, err)
	return all
}

func parts(ms ...*mutex.Mutex) (all []zkrecipes.Part) {
	for _, m := range ms {
		all = append(all, m.Part())
	}
	return all
}

// pair runs a test in virtual time, with a server and its clients a and b.
func pair(t *testing.T, test func(t *testing.T, srv *zktest.Server, a, b *conn.Client)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		test(t, srv, bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b"))
	})
}

// ensembles runs a test in virtual time, with mutexes on the same path of two ensembles.
func ensembles(t *testing.T, test func(t *testing.T, x, y *mutex.Mutex)) {
	synctest.Test(t, func(t *testing.T) {
		first, second := zktest.Run(t, zktest.InMemory()), zktest.Run(t, zktest.InMemory())
		test(t, at(t, bubble.Dial(t, first, "a"), path, mutex.WithReentrance()),
			at(t, bubble.Dial(t, second, "a"), path, mutex.WithReentrance()))
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

func TestLockAll_TakesAllOrNone(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y, z := at(t, a, "/l/x"), at(t, a, "/l/y"), at(t, a, "/l/z")
		all := lockAll(t, parts(z, x, y))
		require.NoError(t, all.Err())
		require.Less(t, all.Of(x.Part()).Token(), all.Of(y.Part()).Token(), "in the order of the paths")
		require.Less(t, all.Of(y.Part()).Token(), all.Of(z.Part()).Token())
		require.Nil(t, all.Of(at(t, a, "/l/other").Part()))
		require.False(t, all.ValidUntil().Before(time.Now()))
		for _, m := range []*mutex.Mutex{x, y, z} {
			_, err := m.Lock(all.Context())
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			nested, err := at(t, a, m.Path(), mutex.WithReentrance()).TryLock(all.Context())
			require.NoError(t, err)
			require.NoError(t, nested.Release(t.Context()))
		}
		// A call that waits for y holds x, and releases it when it gives up.
		require.NoError(t, all.Of(x.Part()).Release(t.Context()))
		require.ErrorIs(t, all.Err(), zkrecipes.ErrReleased)
		<-all.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := multilock.LockAll(ctx, parts(at(t, b, "/l/z"), at(t, b, "/l/y"), at(t, b, "/l/x"))...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began), "one deadline for all")
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, err, &waited)
		require.Equal(t, "/l/y", waited.Path)
		bubble.Clean(t, srv, "/l/x")
		require.NoError(t, all.Release(t.Context()))
		require.ErrorIs(t, all.Err(), zkrecipes.ErrReleased)
		bubble.Clean(t, srv, "/l", "x", "y", "z")
	})
}

func TestLockAll_OneLostWhileWaitingForAnother_FailsAtOnce(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y := at(t, a, "/l/x"), at(t, a, "/l/y")
		held, err := at(t, b, "/l/y").Lock(t.Context())
		require.NoError(t, err)
		all := bubble.Start(t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
			_, err := multilock.LockAll(ctx, parts(y, x)...)
			return nil, err
		})
		all.Waits(t)
		require.NoError(t, srv.Delete("/l/x/"+srv.Children("/l/x")[0]))
		require.ErrorIs(t, all.Failed(t, 0), zkrecipes.ErrLost)
		require.Len(t, srv.Children("/l/y"), 1)
		require.NoError(t, held.Release(t.Context()))
	})
}

func TestLockAll_OneReleaseFails_TheOthersAreReleased(t *testing.T) {
	for i := range 2 {
		pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
			var ms []*mutex.Mutex
			for _, path := range []string{"/l/x", "/l/y"} {
				ms = append(ms, at(t, a, path))
			}
			all := lockAll(t, parts(ms...))
			require.NoError(t, srv.Delete(all.Of(ms[i].Part()).Path()))
			<-all.Done()
			require.ErrorIs(t, context.Cause(all.Context()), zkrecipes.ErrLost)
			err := all.Release(t.Context())
			var lost *zkrecipes.LostError
			require.True(t, errors.As(err, &lost))
			require.Equal(t, all.Of(ms[i].Part()).Path(), lost.Path)
			require.ErrorIs(t, all.Err(), zkrecipes.ErrLost, "the loss counts, and not that the other was released")
			bubble.Clean(t, srv, "/l", "x", "y")
		})
	}
}

func TestLockAll_OnePathOfTwoEnsembles(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		all, err := multilock.LockAll(briefly(t.Context(), t), parts(x, y)...)
		require.NoError(t, err)
		for _, m := range []*mutex.Mutex{x, y} {
			h, err := m.Lock(briefly(all.Context(), t))
			require.NoError(t, err, "nested")
			require.Equal(t, all.Of(m.Part()).Path(), h.Path())
			require.NoError(t, h.Release(t.Context()))
		}
		require.NotEqual(t, all.Of(x.Part()).Path(), all.Of(y.Part()).Path())
		require.NoError(t, all.Release(t.Context()))
	})
}

// several runs a test in virtual time with three locks of one client, one of them through Sub, which are held together.
func several(t *testing.T, test func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *multilock.Holds)) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		sub, err := a.Sub("/app")
		require.NoError(t, err)
		var ms []*mutex.Mutex
		for _, c := range []struct {
			client *conn.Client
			path   string
		}{{a, "/app/y"}, {sub, "/z"}, {a, "/app/x"}} {
			ms = append(ms, at(t, c.client, c.path))
		}
		all := lockAll(t, parts(ms...))
		_, err = srv.Create("/data", []byte("old"), zktest.Persistent)
		require.NoError(t, err)
		test(t, srv, ms, all)
		_ = all.Release(t.Context()) // some are lost
	})
}

func TestHolds_Txn_IsGuardedByAll(t *testing.T) {
	set := func(text string) zkrecipes.Op { return zkrecipes.OpSet("/data", []byte(text), -1) }
	several(t, func(t *testing.T, srv *zktest.Server, _ []*mutex.Mutex, all *multilock.Holds) {
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
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *multilock.Holds) {
			h := all.Of(ms[i].Part())
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

// A hold that was released guards nothing, even if its contender may still exist for a moment.
func TestHolds_Txn_OneReleased_IsFenced(t *testing.T) {
	for i := range 3 {
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *multilock.Holds) {
			synctest.Wait()
			srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Ignore())
			ended, end := context.WithCancel(t.Context())
			end()
			require.ErrorIs(t, all.Of(ms[i].Part()).Release(ended), context.Canceled)
			require.Len(t, srv.Tree("/app"), 7, "the contender is there")
			sent := bubble.Requests(srv)
			_, err := all.Txn(t.Context(), zkrecipes.OpSet("/data", nil, -1))
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			require.Zero(t, sent.Hits())
			sent.Remove()
			srv.Cut(zktest.Everyone) // the deletion is retried
		})
	}
}

// The reply and a hold are lost: the ops may have been applied before.
func TestHolds_Txn_ReplyAndOneHoldLost_IsUnknown(t *testing.T) {
	several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *multilock.Holds) {
		h := all.Of(ms[0].Part()) // of a client without a chroot, and not the first by path
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
		all, err := multilock.LockAll(ctx, parts(at(t, a, path))...)
		require.NoError(t, err)
		require.NoError(t, all.Release(t.Context()))
		require.Zero(t, ctx.Waiting())
	})
}

func TestHolds_OfSeveralClients_HaveNoTxn(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		all := lockAll(t, parts(x, y))
		_, err := all.Txn(t.Context())
		require.ErrorContains(t, err, "want locks of the same client")
		require.NoError(t, all.Check(t.Context()))
		require.NoError(t, all.Release(t.Context()))
	})
}

// The holds are in two sessions, and one of them is cut off.
func TestHolds_ValidUntil_IsTheFirstDeadline(t *testing.T) {
	for _, which := range []string{"a", "b"} {
		pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
			x, y := at(t, a, "/app/x"), at(t, b, "/app/y")
			all := lockAll(t, parts(x, y))
			srv.Stall(zktest.Label(which), zktest.Both)
			time.Sleep(bubble.Timeout / 2)
			first, last := all.Of(x.Part()).ValidUntil(), all.Of(y.Part()).ValidUntil()
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

// The clients have different roots, and one of these may be a prefix of the other.
func TestHolds_Txn_OtherRoots_IsRefusedAtOnce(t *testing.T) {
	for _, root := range []string{"/application", "/other"} {
		pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
			app, err := a.Sub("/app")
			require.NoError(t, err)
			other, err := a.Sub(root)
			require.NoError(t, err)
			all := lockAll(t, parts(at(t, app, "/lock"), at(t, other, "/lock")))
			_, err = all.Txn(t.Context())
			require.ErrorContains(t, err, "want locks of the same client", root)
			require.NoError(t, all.Release(t.Context()))
		})
	}
}

// The error names the hold that was lost, whichever it is, and even if others were released before.
func TestHolds_Err_NamesTheLoss(t *testing.T) {
	for lost := range 3 {
		several(t, func(t *testing.T, srv *zktest.Server, ms []*mutex.Mutex, all *multilock.Holds) {
			require.NoError(t, all.Err())
			for i, m := range ms {
				if i != lost {
					require.NoError(t, all.Of(m.Part()).Release(t.Context()))
					require.Equal(t, zkrecipes.ErrReleased, all.Err())
				}
			}
			srv.Expire(srv.SessionOf("a"))
			<-all.Of(ms[lost].Part()).Done()
			var why *zkrecipes.LostError
			require.ErrorAs(t, all.Err(), &why)
			require.Equal(t, all.Of(ms[lost].Part()).Path(), why.Path)
		})
	}
}

// Every hold guards the transaction, so a waiter of the same session waits for the deletion of each of their nodes.
func TestLockAll_TransactionOnItsWay_HandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		_, err := srv.Create("/x", nil, zktest.Persistent)
		require.NoError(t, err)
		one, two := at(t, c, "/app/1"), at(t, c, "/app/2")
		all := lockAll(t, parts(one, two))
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

// mixed returns locks of every recipe, two of them on one path, in the order in which they are acquired.
func mixed(t *testing.T, c *conn.Client, leases int) []zkrecipes.Part {
	t.Helper()
	e, err := election.New(c, "/l/a")
	require.NoError(t, err)
	s, err := semaphore.New(c, "/l/a", 3)
	require.NoError(t, err)
	r, err := rwlock.New(c, "/l/b")
	require.NoError(t, err)
	w, err := rwlock.New(c, "/l/c")
	require.NoError(t, err)
	return []zkrecipes.Part{e.Part(), s.Part(leases), r.RPart(), w.Part(), at(t, c, "/l/d").Part()}
}

// kept are the parents of mixed.
var kept = []string{"a", "leases", "locks", "b", "c", "d"}

// deletions returns what is deleted from now on, as the parent of the first node of each request.
func deletions(srv *zktest.Server) *[]string {
	deleted := new([]string)
	for _, op := range []zktest.Op{zktest.OpDelete, zktest.OpMulti} {
		srv.Intercept(zktest.Match{Op: op, Times: -1}, zktest.Before(func(r zktest.Request) {
			first := append(r.Paths, r.Path)[0]
			*deleted = append(*deleted, first[:strings.LastIndex(first, "/")])
		}))
	}
	return deleted
}

func TestLockAll_OfEveryRecipe_GoesByPathAndKindAndReleasesInReverse(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		locks := mixed(t, a, 2)
		backwards := slices.Clone(locks)
		slices.Reverse(backwards)
		all := lockAll(t, backwards)
		for i := range locks[1:] {
			require.Less(t, all.Of(locks[i]).Token(), all.Of(locks[i+1]).Token())
		}
		synctest.Wait()
		left := deletions(srv)
		require.NoError(t, all.Release(t.Context()))
		require.Equal(t, []string{"/l/d", "/l/c", "/l/b", "/l/a/leases", "/l/a"}, *left)
		bubble.Clean(t, srv, "/l", kept...)
	})
}

// Of two argument lists, each is the reverse of the other, and other callers hold single locks.
func TestLockAll_OfEveryRecipe_DoesNotDeadlock(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		var wg sync.WaitGroup
		for i, c := range []*conn.Client{a, b, a, b} {
			locks := mixed(t, c, 2)
			if i%2 == 1 {
				slices.Reverse(locks)
			}
			if i > 1 {
				locks = locks[:1]
			}
			wg.Go(func() {
				for range 20 {
					all, err := multilock.LockAll(briefly(t.Context(), t), locks...)
					if assert.NoError(t, err) {
						time.Sleep(time.Millisecond)
						assert.NoError(t, all.Release(t.Context()))
					}
				}
			})
		}
		wg.Wait()
		bubble.Clean(t, srv, "/l", kept...)
	})
}

// Any of the nodes, including the second of two leases, guards the transaction, and its loss ends all holds.
func TestHolds_OfEveryRecipe_AreLostTogether(t *testing.T) {
	const nodes = 6
	for i := range nodes {
		pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
			_, err := srv.Create("/data", []byte("old"), zktest.Persistent)
			require.NoError(t, err)
			all := lockAll(t, mixed(t, a, 2))
			_, err = all.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("new"), 0))
			require.NoError(t, err)
			synctest.Wait()
			guards := srv.Ephemerals(srv.SessionOf("a"))
			require.Len(t, guards, nodes)
			srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete(guards[i]))
			}))
			_, err = all.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("stale"), -1))
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			require.ErrorIs(t, all.Err(), zkrecipes.ErrLost)
			<-all.Done()
			require.ErrorIs(t, context.Cause(all.Context()), zkrecipes.ErrLost)
			n, _ := srv.Node("/data")
			require.Equal(t, "new", string(n.Data))
			require.ErrorIs(t, all.Release(t.Context()), zkrecipes.ErrLost)
			bubble.Clean(t, srv, "/l", kept...)
		})
	}
}

// The last lock is held by another client. The acquired locks are released in reverse when the call gives up.
func TestLockAll_GivesUp_ReleasesInReverse(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		locks := mixed(t, a, 1)
		held, err := multilock.LockAll(t.Context(), mixed(t, b, 1)[len(locks)-1])
		require.NoError(t, err)
		var left *[]string
		time.AfterFunc(time.Second, func() {
			assert.Len(t, srv.Ephemerals(srv.SessionOf("a")), 5)
			left = deletions(srv)
		})
		began := time.Now()
		_, err = multilock.LockAll(briefly(t.Context(), t), locks...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		synctest.Wait()
		require.Empty(t, srv.Ephemerals(srv.SessionOf("a")))
		require.Equal(t, []string{"/l/d", "/l/c", "/l/b", "/l/a/leases", "/l/a"}, *left)
		require.NoError(t, held.Release(t.Context()))
		bubble.Clean(t, srv, "/l", kept...)
	})
}

// Each fault strikes at each request of a call for locks of every recipe, and of their release. The call acquires all
// locks or none, no node is left, and the next client acquires them.
func TestLockAll_EveryStep(t *testing.T) {
	hands := func(f func(zktest.Request)) []zktest.Action {
		return []zktest.Action{zktest.Before(f), zktest.After(f)}
	}
	for name, actions := range map[string]func(srv *zktest.Server, cancel func()) []zktest.Action{
		"lost": func(*zktest.Server, func()) []zktest.Action {
			return []zktest.Action{zktest.DropRequest(), zktest.DropReply()}
		},
		"refused": func(*zktest.Server, func()) []zktest.Action {
			return []zktest.Action{
				zktest.Fail(zktest.CodeNoAuth), zktest.Fail(zktest.CodeQuotaExceeded), zktest.Fail(zktest.CodeThrottled),
				zktest.Fail(zktest.CodeOperationTimeout), zktest.Fail(zktest.CodeRuntimeInconsistency),
			}
		},
		"expired": func(srv *zktest.Server, _ func()) []zktest.Action {
			return hands(func(r zktest.Request) { srv.Expire(r.Session) })
		},
		"cancelled": func(_ *zktest.Server, cancel func()) []zktest.Action {
			return hands(func(zktest.Request) { cancel() })
		},
		"deleted by hand": func(srv *zktest.Server, _ func()) []zktest.Action {
			return hands(func(r zktest.Request) {
				for _, path := range srv.Ephemerals(r.Session) {
					_ = srv.Delete(path) // one of two nodes may be gone
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range actions(nil, nil) {
				for step, hit := 0, true; hit; step++ {
					pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						rule := srv.Intercept(zktest.Match{From: zktest.Label("a"), Skip: step}, actions(srv, cancel)[i])
						all, err := multilock.LockAll(ctx, mixed(t, a, 2)...)
						if err == nil {
							_ = all.Release(t.Context()) // some holds may be lost, or a deletion is refused
						}
						hit = rule.Hits() > 0
						rule.Remove()
						next, err := multilock.LockAll(briefly(t.Context(), t), mixed(t, b, 2)...)
						require.NoError(t, err, "step %d", step)
						require.NoError(t, next.Release(t.Context()))
						bubble.Clean(t, srv, "/l", kept...)
					})
				}
			}
		})
	}
}

func TestLockAll_BadInput_SendsNothing(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		locks := mixed(t, a, 1)
		sub, err := a.Sub("/l")
		require.NoError(t, err)
		same := at(t, sub, "/d")
		selector, err := election.New(a, "/l/d", election.WithLayout(election.Selector))
		require.NoError(t, err)
		rw, err := rwlock.New(a, "/l/b")
		require.NoError(t, err)
		s, err := semaphore.New(a, "/l/a", 3)
		require.NoError(t, err)
		sent := bubble.Requests(srv)
		for _, bad := range []struct {
			name, want string
			locks      []zkrecipes.Part
		}{
			{"none", "want one or more", nil},
			{"zero", "lock 5 is a zero Part", append(slices.Clone(locks), zkrecipes.Part{})},
			{"twice", "/l/a is given twice", append(slices.Clone(locks), locks[0])},
			{"through Sub", "/d is given twice", append(slices.Clone(locks), same.Part())},
			{"a mutex and an election of its nodes", "/l/d is given twice", append(slices.Clone(locks), selector.Part())},
			{"reader and writer", "/l/b is given twice", []zkrecipes.Part{rw.RPart(), rw.Part()}},
			{"leases in two parts", "/l/a is given twice", []zkrecipes.Part{s.Part(1), s.Part(2)}},
			{"too many leases", "above the limit of 3", []zkrecipes.Part{locks[0], s.Part(4)}},
		} {
			_, err := multilock.LockAll(t.Context(), bad.locks...)
			require.ErrorContains(t, err, bad.want, bad.name)
		}
		_, err = multilock.LockAll(nil, locks...) //nolint:staticcheck // this is what is tested
		require.ErrorContains(t, err, "context is nil")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = multilock.LockAll(ended, locks...)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, sent.Hits())
		require.NoError(t, a.Close())
		_, err = multilock.LockAll(t.Context(), locks...)
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// A context that descends from all of the holds ends with them, which is not an error of their release.
func TestRelease_ContextOfTheHolds(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		all, err := multilock.LockAll(t.Context(), mixed(t, a, 2)...)
		require.NoError(t, err)
		srv.Stall(zktest.Label("a"), zktest.Both)
		err = all.Release(all.Context())
		srv.Heal(zktest.Label("a"))
		require.NoError(t, err)
	})
}

// The second reader waited for a writer that came between the two, and that waited for the first.
func TestLockAll_ReadersOfTwoClients_WriterInBetween(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, err := rwlock.New(a, path)
		require.NoError(t, err)
		y, err := rwlock.New(b, path)
		require.NoError(t, err)
		writer := path + "/_c_00000000-0000-4000-8000-000000000000-__WRIT__0000000001"
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Path: "__READ__"}, zktest.Before(func(zktest.Request) {
			_, err := srv.Create(writer, nil, zktest.Persistent)
			assert.NoError(t, err)
		}))
		_, err = multilock.LockAll(briefly(t.Context(), t), x.RPart(), y.RPart())
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.NoError(t, srv.Delete(writer))
		bubble.Clean(t, srv, path)
	})
}
