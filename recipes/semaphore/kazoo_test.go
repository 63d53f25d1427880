package semaphore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const kazooDoor = path + "-__lock__"

// kazooLease creates the node of a kazoo lease; the caller acts for kazoo at the door.
func kazooLease(t *testing.T, c *conn.Client, name string) string {
	t.Helper()
	node, err := c.Create(t.Context(), path+"/"+name, []byte("py"), zk.FlagEphemeral)
	require.NoError(t, err)
	return node
}

func kazooAtDoor(t *testing.T, c *conn.Client) string {
	t.Helper()
	node, err := c.Create(t.Context(), kazooDoor+"/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b__lock__", nil,
		zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	return node
}

func TestWithKazoo_BothCountTheLeasesOfTheOther(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		s := newSemaphore(t, a, 3, semaphore.WithKazoo())
		held := acquire(t, s, 2)
		parent, _ := srv.Node(path)
		require.Equal(t, "3", string(parent.Data))
		require.False(t, parent.Container)
		require.Len(t, srv.Children(path), 2, "kazoo counts all children")
		require.Empty(t, srv.Children(kazooDoor))

		lease := kazooLease(t, python, "3fb01c0a4f0d8f2b7f3a6d1e4c2b9f0a")
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		waiting := bubble.Start(t.Context(), of(s, 2))
		waiting.Waits(t)
		door := srv.Children(kazooDoor)
		require.Len(t, door, 1)
		require.Regexp(t, `__lock__\d{10}$`, door[0], "kazoo counts such names at the door")
		atDoor := kazooAtDoor(t, python) // behind the caller that waits
		last := bubble.Start(t.Context(), of(s, 1))
		last.Waits(t)

		holders, err := s.Holders(t.Context())
		require.NoError(t, err)
		require.Equal(t, "py", holders[0].Name)
		require.ErrorContains(t, s.Revoke(t.Context()), lease)
		<-held.Revoked()

		require.NoError(t, srv.Delete(lease))
		waiting.Waits(t)
		release(t, held)
		h := waiting.Granted(t, 0)
		last.Waits(t)
		lease = kazooLease(t, python, "00b01c0a4f0d8f2b7f3a6d1e4c2b9f0a")
		require.NoError(t, srv.Delete(atDoor))
		last.Waits(t)
		release(t, h)
		release(t, last.Granted(t, 0))
		require.NoError(t, srv.Delete(lease))
		bubble.Clean(t, srv, path)
		bubble.Clean(t, srv, kazooDoor)
	})
}

// kazoo counts and creates in two requests. A client that skips the door may create a lease in between; ours then gives
// its lease back.
func TestWithKazoo_LeaseOfKazooComesWithoutTheDoor(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		s := newSemaphore(t, a, 1, semaphore.WithKazoo())
		release(t, acquire(t, s, 1))
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.Delay(time.Second))
		waiting := bubble.Start(t.Context(), of(s, 1))
		time.Sleep(time.Second / 2)
		lease := kazooLease(t, python, "3fb01c0a4f0d8f2b7f3a6d1e4c2b9f0a")
		time.Sleep(time.Second)
		waiting.Waits(t)
		require.NoError(t, srv.Delete(lease))
		release(t, waiting.Granted(t, 0))
	})
}

func TestWithKazoo_LimitsThatDiffer(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		release(t, acquire(t, newSemaphore(t, a, 3, semaphore.WithKazoo()), 1))
		_, err := newSemaphore(t, b, 4, semaphore.WithKazoo()).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "the node holds 3, but this semaphore has 4")
		_, err = newSemaphore(t, b, 4, semaphore.WithKazoo()).TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "the node holds 3")
		require.NoError(t, srv.Set(path, []byte("3\n"))) // as a shell writes it
		_, err = newSemaphore(t, b, 4, semaphore.WithKazoo()).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "the node holds 3")
		require.NoError(t, srv.Set(path, []byte("owner: ops")))
		release(t, acquire(t, newSemaphore(t, b, 4, semaphore.WithKazoo()), 1))
		bubble.Clean(t, srv, path)
	})
}

// The node with the limit is deleted by hand before the lease is created, and comes back with the lease. It used to
// come back without the limit, so that clients with another one were no longer refused.
func TestWithKazoo_DeletedBeforeTheLease_KeepsTheLimit(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		release(t, acquire(t, newSemaphore(t, a, 3, semaphore.WithKazoo()), 1))
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Path: "lease-"}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.DeleteAll(path))
		}))
		release(t, acquire(t, newSemaphore(t, a, 3, semaphore.WithKazoo()), 1))
		_, err := newSemaphore(t, b, 4, semaphore.WithKazoo()).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "the node holds 3")
		bubble.Clean(t, srv, path)
	})
}

// kazoo counts nodes that are not ephemeral, too. Holders lists all that are in the way, also above the limit and with
// nobody at the door.
func TestWithKazoo_PermanentNodesAboveTheLimit_AreListed(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		s := newSemaphore(t, a, 1, semaphore.WithKazoo())
		release(t, acquire(t, s, 1))
		for _, name := range []string{"x", "y"} {
			_, err := srv.Create(path+"/"+name, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		holders, err := s.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, holders, 2)
	})
}

func TestWithKazoo_CuratorsLayoutBeside_IsRefused(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		release(t, acquire(t, newSemaphore(t, a, 3), 1))
		s := newSemaphore(t, b, 3, semaphore.WithKazoo())
		_, err := s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
		require.ErrorContains(t, err, leases)
		before := srv.Zxid()
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
		require.Equal(t, before, srv.Zxid(), "nothing was written")
		require.Empty(t, srv.Children(kazooDoor))
	})
}

func TestWithKazoo_LimitNode_IsRefused(t *testing.T) {
	pair(t, func(t *testing.T, _ *zktest.Server, a, _ *conn.Client) {
		_, err := semaphore.New(a, path, 3, semaphore.WithKazoo(), semaphore.WithLimitNode("/limit"))
		require.ErrorContains(t, err, "WithLimitNode and WithKazoo")
		require.True(t, strings.HasPrefix(err.Error(), "semaphore: "))
	})
}
