package mutex_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// kazooLock creates the node that kazoo's Lock creates.
func kazooLock(t *testing.T, c *conn.Client) (node string) {
	t.Helper()
	node, err := c.Create(t.Context(), path+"/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b__lock__", []byte("py"),
		zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	return node
}

func TestWithKazoo_EachWaitsForTheOther(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		m := newMutex(t, a, mutex.WithKazoo())
		release := func(h *zkrecipes.Hold) { require.NoError(t, h.Release(t.Context())) }
		release(lock(t, m))
		parent, _ := srv.Node(path)
		require.False(t, parent.Container, "an object of kazoo fails when a container has gone")

		holds := kazooLock(t, python)
		_, err := m.TryLock(t.Context())
		var busy *zkrecipes.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "py", busy.Holder.Name)
		require.Equal(t, holds, busy.Holder.Path)
		require.ErrorContains(t, m.Revoke(t.Context()), "a holder that uses kazoo cannot be asked")
		first := bubble.Start(t.Context(), m.Lock)
		first.Waits(t)
		between := kazooLock(t, python)
		second := bubble.Start(t.Context(), m.Lock)
		second.Waits(t)
		queue, err := m.Queue(t.Context())
		require.NoError(t, err)
		require.Len(t, queue, 4)
		require.Equal(t, []string{holds, between}, []string{queue[0].Path, queue[2].Path})

		require.NoError(t, srv.Delete(holds))
		h := first.Granted(t, 0)
		second.Waits(t)
		release(h)
		second.Waits(t)
		require.NoError(t, srv.Delete(between))
		release(second.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}

// Many sections of two clients in one session would use the shortcuts. None of these may overtake a contender of kazoo.
func TestWithKazoo_HandOverWithinASession_SeesKazoo(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		m := newMutex(t, a, mutex.WithKazoo())
		for range 5 {
			require.NoError(t, lock(t, m).Release(t.Context()))
		}
		h := lock(t, m)
		between := kazooLock(t, python)
		waiting := bubble.Start(t.Context(), m.Lock)
		waiting.Waits(t)
		require.NoError(t, h.Release(t.Context()))
		waiting.Waits(t)
		again := bubble.Start(t.Context(), m.Lock)
		again.Waits(t)
		require.NoError(t, srv.Delete(between))
		require.NoError(t, waiting.Granted(t, 0).Release(t.Context()))
		require.NoError(t, again.Granted(t, 0).Release(t.Context()))
	})
}

// One of our waiters is woken by a data change, such as kazoo's holders receive, and checks again.
func TestWithKazoo_DataOfThePredecessorChanges_WaiterWaitsOn(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		m := newMutex(t, a, mutex.WithKazoo())
		require.NoError(t, lock(t, m).Release(t.Context()))
		holds := kazooLock(t, python)
		waiting := bubble.Start(t.Context(), m.Lock)
		waiting.Waits(t)
		_, err := python.Set(t.Context(), holds, []byte("new"), -1)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(holds))
		require.NoError(t, waiting.Granted(t, 0).Release(t.Context()))
	})
}
