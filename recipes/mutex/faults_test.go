package mutex_test

import (
	"context"
	"errors"
	"runtime"
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

func requireLost(t testing.TB, h *zkrecipes.Hold, reason zkrecipes.LossReason) {
	t.Helper()
	<-h.Done()
	var lost *zkrecipes.LostError
	require.ErrorAs(t, h.Err(), &lost)
	require.Equal(t, reason, lost.Reason)
	require.Equal(t, h.Path(), lost.Path)
	require.Equal(t, h.Err(), context.Cause(h.Context()))
	require.Equal(t, h.Err(), h.Release(t.Context()))
	require.Equal(t, h.Err(), h.Check(t.Context()))
}

// The first copy of a create is executed late: after it was looked for, and before the second copy.
func TestLock_CreateSentAgain_LateOneAhead_IsNotWaitedFor(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		require.NoError(t, lock(t, m).Release(t.Context()))
		time.Sleep(2 * time.Second)
		var name string
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Where: func(r zktest.Request) bool {
			if strings.Contains(r.Path, "lock-") {
				name = r.Path
			}
			return name != ""
		}}, zktest.DropRequest())
		barrier := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$"}, zktest.Proceed())
		found := make(chan struct{})
		searched := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Path: path + "$", Where: func(zktest.Request) bool {
			return barrier.Hits() > 0
		}}, zktest.HoldReplyUntil(found))
		waiting := bubble.Start(t.Context(), m.Lock)
		time.Sleep(time.Second)
		require.Equal(t, 1, searched.Hits())
		late := make(chan error, 1)
		go func() {
			_, err := a.Create(t.Context(), name, nil, zk.FlagEphemeralSequential)
			late <- err
		}()
		synctest.Wait()
		require.Len(t, srv.Children(path), 1)
		close(found)
		require.NoError(t, <-late)
		require.NoError(t, waiting.Granted(t, time.Minute).Release(t.Context()))
		bubble.Clean(t, srv, path)
	})
}

// A single server fault as an answer does not end the watching for good.
func TestHold_WatchMeetsAServerFault_IsSetLater(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		fault := srv.Intercept(zktest.Match{Op: zktest.OpGetData, From: zktest.Label("a"), Path: "lock-"}, zktest.Fail(-1))
		held := lock(t, newMutex(t, a))
		synctest.Wait()
		require.Equal(t, 1, fault.Hits())
		time.Sleep(3 * bubble.Timeout)
		require.NoError(t, held.Err())
		require.NoError(t, srv.Delete(held.Path()))
		other := lock(t, newMutex(t, b))
		synctest.Wait()
		require.Error(t, held.Err())
		requireLost(t, held, zkrecipes.LossNodeDeleted)
		require.NoError(t, other.Release(t.Context()))
	})
}

func TestHold_NodeDeleted_CheckFindsOutWithoutTheWatch(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		held := lock(t, newMutex(t, a))
		synctest.Wait()
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("a"), held.Path()))
		require.NoError(t, srv.Delete(held.Path()))
		synctest.Wait()
		require.NoError(t, held.Err())
		require.ErrorIs(t, held.Check(t.Context()), zkrecipes.ErrLost)
		require.ErrorIs(t, held.Err(), zkrecipes.ErrLost)
	})
}

func TestHold_Partitioned_EndsAtItsDeadlineAndBeforeTheNextHolder(t *testing.T) {
	for _, dir := range []zktest.Direction{zktest.Both, zktest.ToServer, zktest.FromServer} {
		pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
			held := lock(t, newMutex(t, a))
			waiter := bubble.Start(t.Context(), newMutex(t, b).Lock)
			time.Sleep(time.Minute)
			waiter.Waits(t)
			srv.Stall(zktest.Label("a"), dir)
			synctest.Wait()
			deadline := held.ValidUntil()
			<-held.Done()
			require.Equal(t, deadline, time.Now(), "to the nanosecond")
			requireLost(t, held, zkrecipes.LossDeadline)
			waiter.Waits(t)
			srv.Heal(zktest.Label("a"))
			// In a session that lives on, the node of a lost hold would block every waiter.
			require.NoError(t, waiter.Granted(t, 3*bubble.Timeout).Release(t.Context()))
			time.Sleep(bubble.Timeout)
			bubble.Clean(t, srv, path)
		})
	}
}

func TestWithLossOnSuspend_DisconnectEndsTheHoldAndTheNodeGoes(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		m := newMutex(t, a, mutex.WithLossOnSuspend())
		held := lock(t, m)
		waiter := bubble.Start(t.Context(), newMutex(t, b).Lock)
		waiter.Waits(t)
		srv.Cut(zktest.Label("a"))
		requireLost(t, held, zkrecipes.LossSuspended)
		require.NoError(t, waiter.Granted(t, bubble.Timeout).Release(t.Context()))
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
	})
}

// CURATOR-264: a server that lags, or a leader that has been replaced, may not show the node that is searched for, so a
// quorum is asked before the search.
func TestLock_CreateReplyLost_AsksAQuorumBeforeItSearches(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		require.NoError(t, lock(t, m).Release(t.Context()))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.DropReply())
		silent := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.DelayUntil(t.Context().Done()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		try := bubble.Start(ctx, m.Lock)
		time.Sleep(time.Second / 2)
		require.Equal(t, 1, silent.Hits()) // the removal asks as well, once Lock gives up
		require.ErrorIs(t, try.Failed(t, time.Second), context.DeadlineExceeded)
		require.Len(t, srv.Children(path), 1)
		silent.Remove()
		srv.Cut(zktest.Label("a"))
		time.Sleep(time.Second)
		require.Empty(t, srv.Children(path))
		require.NoError(t, lock(t, m).Release(t.Context()))
	})
}

// ZOOKEEPER-710: a server that hung may late execute a create that was sent again through another server. The node of
// the late create is removed together with the contender that counts.
func TestLock_CreateSentAgain_LateOneGoesWithIt(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		require.NoError(t, lock(t, m).Release(t.Context()))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "lock-"}, zktest.DropRequest())
		h := lock(t, m)
		name := h.Path()[:strings.LastIndex(h.Path(), "-")+1]
		_, err := a.Create(t.Context(), name, nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		require.Len(t, srv.Children(path), 2)
		require.NoError(t, h.Release(t.Context()))
		require.Empty(t, srv.Children(path))
	})
}

// CURATOR-604: the client is cut off until it gives up its session while the server still keeps it, and returns with a
// new one. When the holder releases, the waiter's old node is the first in the queue, and Curator grants on it.
func TestLock_OldSessionStillOnTheServer_IsNeverGrantedOnItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		a, b, c := bubble.Dial(t, srv, "a"), bubble.Dial(t, srv, "b"), bubble.Dial(t, srv, "c")
		held := lock(t, newMutex(t, a))
		waiter := bubble.Start(t.Context(), newMutex(t, b).Lock)
		waiter.Waits(t)
		old := srv.SessionOf("b")
		oldNode := srv.Ephemerals(old)[0]
		srv.Stall(zktest.Label("b"), zktest.FromServer) // the server receives what b sends, and keeps the session
		for range b.States(t.Context()) {
			if b.Status().State == zkrecipes.Lost {
				break
			}
		}
		require.True(t, srv.Exists(oldNode), "the server has not noticed yet")
		srv.Heal(zktest.Label("b"))
		require.NoError(t, held.Release(t.Context()))
		third := bubble.Start(t.Context(), newMutex(t, c).Lock)
		for !waiter.Over() && !third.Over() {
			time.Sleep(100 * time.Millisecond)
		}
		if waiter.Over() {
			second := waiter.Granted(t, 0)
			require.NotEqual(t, oldNode, second.Path())
			n, ok := srv.Node(second.Path())
			require.True(t, ok)
			require.Equal(t, srv.SessionOf("b"), n.Stat.EphemeralOwner)
			require.NotEqual(t, old, n.Stat.EphemeralOwner)
			third.Waits(t)
			require.NoError(t, second.Release(t.Context()))
			require.NoError(t, third.Granted(t, time.Minute).Release(t.Context()))
		} else {
			waiter.Waits(t)
			require.NoError(t, third.Granted(t, 0).Release(t.Context()))
			require.NoError(t, waiter.Granted(t, time.Minute).Release(t.Context()))
		}
		bubble.Clean(t, srv, path)
	})
}

// A hold granted by a nested Lock while the last hold is being released must not depend on a contender that is being
// removed.
func TestLock_NestedWhileTheLastIsReleased_HoldsOrNot(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a, mutex.WithReentrance())
		for i := range 300 {
			outer := lock(t, m)
			inside := context.WithoutCancel(outer.Context())
			var wg sync.WaitGroup
			wg.Go(func() { assert.NoError(t, outer.Release(t.Context())) })
			wg.Go(func() {
				for range i % 6 { // at varying moments
					runtime.Gosched()
				}
				h, err := m.Lock(inside)
				if !assert.NoError(t, err) {
					return
				}
				time.Sleep(time.Nanosecond) // until everything has settled, including a removal that has begun
				assert.True(t, srv.Exists(h.Path()))
				assert.NoError(t, h.Release(t.Context()))
			})
			wg.Wait()
		}
		bubble.Clean(t, srv, path)
	})
}

// nestedThroughSub locks, and locks again inside, through a client made by Sub.
func nestedThroughSub(t *testing.T, c *conn.Client) (outer, inner *zkrecipes.Hold) {
	t.Helper()
	sub, err := c.Sub("/app")
	require.NoError(t, err)
	below, err := mutex.New(sub, strings.TrimPrefix(path, "/app"), mutex.WithReentrance())
	require.NoError(t, err)
	outer = lock(t, newMutex(t, c))
	inner, err = below.Lock(outer.Context())
	require.NoError(t, err)
	return outer, inner
}

// A nested hold through a client made by Sub uses that client's paths.
func TestLock_NestedThroughSub_HasThePathsOfItsClient(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		for _, p := range []string{"/app", "/app/data", "/data"} {
			_, err := srv.Create(p, []byte("old"), zktest.Persistent)
			require.NoError(t, err)
		}
		outer, inner := nestedThroughSub(t, a)
		require.Equal(t, outer.Path(), "/app"+inner.Path())
		_, err := inner.Txn(t.Context(), zkrecipes.OpSet("/data", []byte("new"), -1))
		require.NoError(t, err)
		inside, _ := srv.Node("/app/data")
		outside, _ := srv.Node("/data")
		require.Equal(t, "new", string(inside.Data))
		require.Equal(t, "old", string(outside.Data))
		require.NoError(t, srv.Delete(outer.Path()))
		_, err = inner.Txn(t.Context(), zkrecipes.OpSet("/data", nil, -1))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
	})
}

// The hold is released while a server that sheds load makes its transaction wait. The deletion is not a loss.
func TestTxn_ReleasedBeforeItIsSentAgain(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		h := lock(t, newMutex(t, a))
		refused := srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Fail(zktest.CodeThrottled))
		done := make(chan error)
		go func() {
			_, err := h.Txn(t.Context(), zkrecipes.OpSet("/", nil, -1))
			done <- err
		}()
		<-refused.Done()
		require.NoError(t, h.Release(t.Context()))
		err := <-done
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.ErrorIs(t, err, zkrecipes.ErrReleased)
		require.NotErrorIs(t, err, zkrecipes.ErrLost)
	})
}

func TestLock_NestedThroughSub_LossHasItsPath(t *testing.T) {
	for _, how := range []string{"deleted", "check", "expired"} {
		t.Run(how, func(t *testing.T) {
			pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
				outer, inner := nestedThroughSub(t, a)
				switch how {
				case "deleted":
					synctest.Wait()
					require.NoError(t, srv.Delete(outer.Path()))
					synctest.Wait()
				case "check":
					synctest.Wait()
					srv.Stall(zktest.Label("a"), zktest.FromServer)
					require.NoError(t, srv.Delete(outer.Path()))
					srv.Heal(zktest.Label("a"))
					_ = inner.Check(t.Context())
				case "expired":
					srv.Expire(srv.SessionOf("a"))
					time.Sleep(bubble.Timeout)
				}
				var l *zkrecipes.LostError
				require.True(t, errors.As(inner.Err(), &l))
				require.Equal(t, inner.Path(), l.Path)
			})
		})
	}
}

// A context that descends from another hold, which was released, says nothing about this one.
func TestRelease_ContextOfAnotherHold_SaysThatItIsNotConfirmed(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		other, err := newMutex(t, a).Lock(t.Context())
		require.NoError(t, err)
		m, err := mutex.New(a, "/another")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Release(t.Context()))
		srv.Stall(zktest.Label("a"), zktest.Both)
		err = h.Release(other.Context())
		srv.Heal(zktest.Label("a"))
		var op *zkrecipes.OpError
		require.ErrorAs(t, err, &op)
		require.ErrorContains(t, err, "not deleted yet")
	})
}

func TestLock_NestedThroughSub_ReleaseErrorHasItsPath(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		outer, inner := nestedThroughSub(t, a)
		require.NoError(t, outer.Release(t.Context()))
		srv.Stall(zktest.Label("a"), zktest.Both)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var op *zkrecipes.OpError
		require.ErrorAs(t, inner.Release(ctx), &op)
		srv.Heal(zktest.Label("a"))
		require.Equal(t, inner.Path(), op.Path)
	})
}
