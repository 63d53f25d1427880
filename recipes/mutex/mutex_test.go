package mutex_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/lock"

func newMutex(t testing.TB, c *conn.Client, opts ...mutex.Option) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, path, opts...)
	require.NoError(t, err)
	return m
}

func lock(t testing.TB, m *mutex.Mutex) *zkrecipes.Hold {
	t.Helper()
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return h
}

// pair runs a test in virtual time, with a server and its clients a and b.
func pair(t *testing.T, test func(t *testing.T, srv *zktest.Server, a, b *conn.Client)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		test(t, srv, bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b"))
	})
}

const uuid = `_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`

// Curator's golden dump of a mutex: parents are empty containers, contenders are protected ephemeral sequential nodes
// named lock-, and revocation is the ten bytes __REVOKE__ in version 1, on the head of the queue.
func TestNodes_AreThoseOfCurator(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m := newMutex(t, a, mutex.WithData([]byte("127.0.0.1")))
		held := lock(t, m)
		waiter := bubble.Start(t.Context(), newMutex(t, b, mutex.WithData(nil)).Lock)
		waiter.Waits(t)
		require.NoError(t, m.Revoke(t.Context()))

		tree := srv.Tree("/app")
		require.Len(t, tree, 4)
		for i, parent := range []string{"/app", "/app/lock"} {
			assert.Equal(t, parent, tree[i].Path)
			assert.True(t, tree[i].Container)
			assert.Empty(t, tree[i].Data)
			assert.Zero(t, tree[i].Stat.Version)
		}
		first, second := tree[2], tree[3]
		if strings.HasSuffix(second.Path, "0") {
			first, second = second, first
		}
		assert.Regexp(t, `^/app/lock/`+uuid+`lock-0000000000$`, first.Path)
		assert.Equal(t, held.Path(), first.Path)
		assert.Equal(t, "__REVOKE__", string(first.Data))
		assert.EqualValues(t, 1, first.Stat.Version)
		assert.EqualValues(t, held.Token(), first.Stat.Czxid)
		assert.Equal(t, srv.SessionOf("a"), first.Stat.EphemeralOwner)
		assert.Regexp(t, `^/app/lock/`+uuid+`lock-0000000001$`, second.Path)
		assert.Empty(t, second.Data)
		assert.Equal(t, srv.SessionOf("b"), second.Stat.EphemeralOwner)

		require.NoError(t, held.Release(t.Context()))
		h := waiter.Granted(t, 0)
		assert.Greater(t, h.Token(), held.Token())
		require.NoError(t, h.Release(t.Context()))
		bubble.Clean(t, srv, path)
	})
}

func TestNodes_ContendersOfCurator_TakePart(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		for _, parent := range []string{"/app", path} {
			_, err := srv.Create(parent, nil, zktest.Container)
			require.NoError(t, err)
		}
		peer, err := srv.Create(path+"/_c_b824d726-7871-4a09-a819-59f45f914220-lock-", []byte("10.1.2.3"),
			zktest.PersistentSequential)
		require.NoError(t, err)
		m := newMutex(t, a)
		waiter := bubble.Start(t.Context(), m.Lock)
		waiter.Waits(t)
		_, err = m.TryLock(t.Context())
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "10.1.2.3", busy.Holder.Name)
		assert.Equal(t, 2, busy.Queue)
		require.NoError(t, srv.Delete(peer))
		require.NoError(t, waiter.Granted(t, 0).Release(t.Context()))
	})
}

// Curator does not filter such children: a child named "0" blocks its mutex forever.
func TestLock_ForeignChildren_AreSkippedAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var log bytes.Buffer
		c := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		m := newMutex(t, c)
		require.NoError(t, lock(t, m).Release(t.Context()))
		synctest.Wait()
		require.Empty(t, log.String(), "there are none")
		for _, name := range []string{"0", "zzz", "leases"} {
			_, err := srv.Create(path+"/"+name, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		for range 3 {
			require.NoError(t, lock(t, m).Release(t.Context()))
		}
		synctest.Wait() // no acquisition waits for the logger
		assert.Equal(t, 1, strings.Count(log.String(), "not contenders"), log.String())
		assert.Contains(t, log.String(), "zzz")
		assert.Contains(t, log.String(), "of=3")
	})
}

func TestLock_Cost_IsAsPromised(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m, other := newMutex(t, a), newMutex(t, b)
		require.NoError(t, lock(t, m).Release(t.Context())) // creates the parents
		synctest.Wait()
		held := lock(t, m)
		synctest.Wait()
		require.Equal(t, []int64{srv.SessionOf("a")}, srv.Watchers(held.Path()), "the holder watches itself")
		second := bubble.Start(t.Context(), other.Lock)
		second.Waits(t)
		// The heartbeats have begun. What follows takes no time, so none of them falls in between.
		sent := bubble.Requests(srv)
		third := bubble.Start(t.Context(), other.Lock)
		third.Waits(t)
		assert.Equal(t, 4, sent.Hits(), "create, children, the node ahead, which is of its session, and its own")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 5, sent.Hits(), "the holder's data for the error message")
		sent.Remove()
		sent = bubble.Requests(srv)
		require.NoError(t, held.Release(t.Context()))
		h := second.Granted(t, 0)
		assert.Equal(t, 1, sent.Hits(), "delete; the event grants the next")
		third.Waits(t)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, third.Granted(t, 0).Release(t.Context()))
	})
}

func TestLock_DeadContext_FailsAtOnceAndSendsNothing(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		held := lock(t, m)
		why := errors.New("why")
		for name, parent := range map[string]context.Context{"plain": t.Context(), "nested": held.Context()} {
			ctx, cancel := context.WithCancelCause(parent)
			cancel(why)
			sent := bubble.Requests(srv)
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, why, name)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, why, name)
			require.ErrorIs(t, m.Do(ctx, nothing), why, name)
			require.Zero(t, sent.Hits(), name)
			sent.Remove()
		}
		require.NoError(t, held.Release(t.Context()))
	})
}

// Goroutines that have the context of a hold do not acquire the lock, and none waits for its own caller.
func TestLock_InsideItsOwnHold(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		sub, err := a.Sub("/app")
		require.NoError(t, err)
		below, err := mutex.New(sub, strings.TrimPrefix(path, "/app"))
		require.NoError(t, err)
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, h *zkrecipes.Hold) error {
			synctest.Wait()
			sent := bubble.Requests(srv)
			var inside sync.WaitGroup
			for _, acquire := range []func(context.Context) error{
				func(ctx context.Context) error { return m.Do(ctx, nothing) },
				func(ctx context.Context) error { return below.Do(ctx, nothing) },
				func(ctx context.Context) error { _, err := newMutex(t, a).Lock(ctx); return err },
				func(ctx context.Context) (err error) {
					defer func() { err, _ = recover().(error) }()
					m.Locker(ctx).Lock()
					return nil
				},
			} {
				inside.Go(func() {
					began := time.Now()
					err := acquire(briefly(ctx, t))
					assert.ErrorIs(t, err, zkrecipes.ErrDeadlock)
					assert.ErrorContains(t, err, "lock-0000000000")
					assert.Zero(t, time.Since(began))
				})
			}
			inside.Wait()
			require.Zero(t, sent.Hits())
			sent.Remove()
			_, err := m.TryLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked, "a try does not wait")
			require.NoError(t, h.Release(ctx))
			inner, err := m.Lock(context.WithoutCancel(ctx))
			require.NoError(t, err, "the hold has ended")
			return inner.Release(context.WithoutCancel(ctx))
		}))
		bubble.Clean(t, srv, path)
	})
}

// Curator grants nested locks from memory even if the lock is lost. It leaves one watch behind, as we do.
func TestLock_Nested_SharesTheContenderUntilTheLastRelease(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m := newMutex(t, a, mutex.WithReentrance())
		outer := lock(t, m)
		synctest.Wait()
		sent := bubble.Requests(srv)
		middle, err := m.Lock(outer.Context())
		require.NoError(t, err)
		inner, err := newMutex(t, a, mutex.WithReentrance()).TryLock(middle.Context()) // another object, on the same path
		require.NoError(t, err)
		require.Zero(t, sent.Hits())
		sent.Remove()
		require.Equal(t, outer.Path(), inner.Path())
		require.Equal(t, outer.Token(), inner.Token())
		other := bubble.Start(t.Context(), newMutex(t, b).Lock)
		other.Waits(t)
		require.NoError(t, outer.Release(t.Context()))
		require.ErrorIs(t, outer.Err(), zkrecipes.ErrReleased)
		other.Waits(t)
		require.NoError(t, inner.Release(t.Context()))
		other.Waits(t)
		require.NoError(t, middle.Err())
		require.NoError(t, middle.Release(t.Context()))
		require.NoError(t, other.Granted(t, 0).Release(t.Context()))
	})
}

func TestLock_NotNested_AnotherGoroutineIsKeptOut(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a, mutex.WithReentrance())
		outer := lock(t, m)
		inner, err := m.Lock(outer.Context())
		require.NoError(t, err)
		_, err = m.TryLock(t.Context()) // the same Mutex, the same process, but no hold in the context
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, outer.Release(t.Context()))
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, inner.Release(t.Context()))
		bubble.Clean(t, srv, path)
	})
}

func TestLock_ContextOfAnEndedHold_IsNotNested(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m := newMutex(t, a)
		lost := lock(t, m)
		require.NoError(t, srv.Delete(lost.Path()))
		synctest.Wait()
		_, err := m.Lock(lost.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		other := lock(t, newMutex(t, b))
		_, err = m.TryLock(context.WithoutCancel(lost.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, other.Release(t.Context()))
	})
}

func TestDo_HoldsForTheBodyAndReleases(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m, other := newMutex(t, a), newMutex(t, b)
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "value")
		failed := errors.New("failed")
		err := m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			_, err := other.TryLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			require.Equal(t, "value", ctx.Value(key{}))
			require.NoError(t,
				newMutex(t, a, mutex.WithReentrance()).Do(ctx, func(_ context.Context, inner *zkrecipes.Hold) error {
					require.Equal(t, h.Token(), inner.Token())
					return nil
				}), "nested")
			require.NoError(t, h.Err())
			return failed
		})
		require.Equal(t, failed, err)
		require.Empty(t, srv.Children(path))
		require.PanicsWithValue(t, "boom", func() {
			_ = m.Do(ctx, func(context.Context, *zkrecipes.Hold) error { panic("boom") })
		})
		require.Empty(t, srv.Children(path))
		require.NoError(t, m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error { return h.Release(ctx) }))
	})
}

// Curator forgets the listener with every release, and never notifies the second round.
func TestRevoke_IsDeliveredInEveryRound(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m, other := newMutex(t, a), newMutex(t, b)
		require.NoError(t, other.Revoke(t.Context()), "no holder")
		for range 2 {
			h := lock(t, m)
			waiter := bubble.Start(t.Context(), other.Lock)
			waiter.Waits(t)
			select {
			case <-h.Revoked():
				t.Fatal("revoked before it was asked for")
			default:
			}
			require.NoError(t, other.Revoke(t.Context()))
			require.NoError(t, other.Revoke(t.Context()), "twice")
			<-h.Revoked()
			require.NoError(t, h.Err(), "a request, no more")
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, waiter.Granted(t, 0).Release(t.Context()))
		}
		bubble.Clean(t, srv, path)
	})
}

// Curator's Revoker also writes to waiters. Ours is notified as soon as it holds.
func TestRevoke_OnAWaiter_IsToldWithTheGrant(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		held := lock(t, newMutex(t, a))
		waiter := bubble.Start(t.Context(), newMutex(t, b).Lock)
		waiter.Waits(t)
		require.NoError(t, srv.Set(srv.Ephemerals(srv.SessionOf("b"))[0], []byte("__REVOKE__")))
		waiter.Waits(t)
		require.NoError(t, held.Release(t.Context()))
		h := waiter.Granted(t, 0)
		<-h.Revoked()
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestLocker_Locks(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		l := newMutex(t, a).Locker(t.Context())
		l.Lock()
		_, err := newMutex(t, b).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		entered := make(chan struct{})
		go func() {
			l.Lock()
			close(entered)
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("two inside")
		default:
		}
		// After a loss, Unlock in the goroutine that lost must not end the hold of the other.
		require.NoError(t, srv.Delete(srv.Ephemerals(srv.SessionOf("a"))[0]))
		synctest.Wait()
		l.Unlock()
		<-entered
		_, err = newMutex(t, b).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		l.Unlock()
		require.PanicsWithValue(t, "unlock of unlocked mutex "+path, l.Unlock)
		bubble.Clean(t, srv, path)

		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.Fail(zktest.CodeNoAuth))
		require.Panics(t, l.Lock)
		l.Lock() // the previous one holds nothing
		_, err = newMutex(t, b).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		l.Unlock()

		ctx, cancel := context.WithCancel(t.Context())
		dead := newMutex(t, a).Locker(ctx)
		cancel()
		require.Panics(t, dead.Lock)
		require.Panics(t, dead.Lock, "again: a failed Lock holds nothing")
	})
}

func TestLock_BelowNamespaces_IsOneLockByItsPathOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		root := bubble.Dial(t, srv, "root")
		rooted := bubble.DialAt(t, srv, "rooted", "/ns")
		sub, err := root.Sub("/ns")
		require.NoError(t, err)
		at := func(c *conn.Client, path string, opts ...mutex.Option) *mutex.Mutex {
			m, err := mutex.New(c, path, opts...)
			require.NoError(t, err)
			return m
		}
		h, err := at(rooted, "/x/lock").Lock(t.Context())
		require.NoError(t, err)
		assert.Regexp(t, `^/x/lock/`+uuid+`lock-0000000000$`, h.Path())
		assert.True(t, srv.Exists("/ns"+h.Path()))
		ns, _ := srv.Node("/ns")
		assert.True(t, ns.Container)
		_, err = at(root, "/ns/x/lock").TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		_, err = at(sub, "/x/lock").TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, h.Release(t.Context()))
		h, err = at(sub, "/x/lock").Lock(t.Context())
		require.NoError(t, err)
		nested, err := at(root, "/ns/x/lock", mutex.WithReentrance()).TryLock(h.Context())
		require.NoError(t, err, "nested: the same client, and the same path on the server")
		require.NoError(t, nested.Release(t.Context()))
		require.NoError(t, h.Release(t.Context()))
		bubble.Clean(t, srv, "/ns/x/lock")
	})
}

func TestLock_ACLOfTheClient_IsOnParentsAndContenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a", conn.WithAuth("digest", "u:p"), conn.WithACL(zk.DigestACL(zk.PermAll, "u", "p")))
		h := lock(t, newMutex(t, c))
		for _, n := range srv.Tree("/app") {
			require.Len(t, n.ACL, 1)
			require.Equal(t, "digest", n.ACL[0].Scheme, n.Path)
		}
		_, err := newMutex(t, bubble.Dial(t, srv, "stranger")).Lock(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, h.Release(t.Context()))
	})
}

func nothing(context.Context, *zkrecipes.Hold) error { return nil }

// Data is returned unchanged, and is the name if it is text.
func TestQueue_DataAndName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		a := bubble.Dial(t, srv, "a")
		for data, name := range map[string]string{"": "", "worker 7": "worker 7", "\xff\x00": ""} {
			m := newMutex(t, a, mutex.WithData([]byte(data)))
			h := lock(t, m)
			queue, err := m.Queue(t.Context())
			require.NoError(t, err)
			require.Len(t, queue, 1)
			require.Equal(t, data, string(queue[0].Data))
			require.Equal(t, name, queue[0].Name)
			require.NoError(t, m.Revoke(t.Context()))
			queue, err = m.Queue(t.Context())
			require.NoError(t, err)
			require.Equal(t, "__REVOKE__", string(queue[0].Data))
			require.Empty(t, queue[0].Name, "a request is no name")
			require.NoError(t, h.Release(t.Context()))
		}
	})
}

// A tracer may derive a context from the caller's, which is therefore checked first.
func TestLock_NilContext_IsAnErrorEvenWithATracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		m := newMutex(t, bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a", conn.WithTracer(&zkrecipes.Tracer{
			AcquireStart: func(ctx context.Context, _ zkrecipes.AcquireStart) context.Context {
				return context.WithValue(ctx, key{}, 1)
			},
		})))
		for _, acquire := range []func(context.Context) (*zkrecipes.Hold, error){m.Lock, m.TryLock} {
			_, err := acquire(nil)
			require.ErrorContains(t, err, "context is nil")
		}
	})
}
