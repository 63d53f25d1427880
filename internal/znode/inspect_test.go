package znode_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// crowd creates n contenders of other clients, and returns their paths in queue order.
func crowd(t *testing.T, srv *zktest.Server, n int) (paths []string) {
	t.Helper()
	for range n {
		paths = append(paths, join(t, srv))
	}
	return paths
}

// TestList_OfALongQueue: all contenders are listed in order.
func TestList_OfALongQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q) // creates the parents
		want := crowd(t, srv, 200)
		list, err := q.List(t.Context())
		require.NoError(t, err)
		var paths []string
		for _, p := range list {
			paths = append(paths, p.Path)
		}
		require.Equal(t, want, paths)
	})
}

// TestList_ContenderLeavesMeanwhile: it is omitted.
func TestList_ContenderLeavesMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		paths := crowd(t, srv, 3)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: paths[1]}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Delete(paths[1]))
		}))
		list, err := q.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, []string{paths[0], paths[2]}, []string{list[0].Path, list[1].Path})
	})
}

// TestList_Refused: an incomplete list, or one that may be stale, is an error.
func TestList_Refused(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSync, zktest.OpGetChildren2, zktest.OpGetData} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			q := queue(t, srv, "a")
			section(t, q)
			crowd(t, srv, 3)
			srv.Intercept(zktest.Match{Op: op, Path: "^" + path}, zktest.Fail(zktest.CodeNoAuth))
			list, err := q.List(t.Context())
			require.ErrorIs(t, err, zk.ErrNoAuth, op)
			require.Empty(t, list)
		})
	}
}

// TestRevoke_HolderLeavesMeanwhile: that is the purpose of the request. A server that refuses is an error.
func TestRevoke_HolderLeavesMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		holder := join(t, srv)
		set := zktest.Match{Op: zktest.OpSetData, Path: holder}
		srv.Intercept(set, zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, q.Revoke(t.Context()), zk.ErrNoAuth)
		srv.Intercept(set, zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete(holder)) }))
		require.NoError(t, q.Revoke(t.Context()))
	})
}

// TestTry_NamesTheHolder: it names the contender at the head, in whatever order the server lists the others. If it
// leaves in the meantime, it is not named. If the server refuses to answer, the error reports that as well.
func TestTry_NamesTheHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		paths := crowd(t, srv, 20)
		busy := func() (*zkrecipes.BusyError, error) {
			_, err := q.Try(t.Context(), entry)
			var busy *zkrecipes.BusyError
			require.ErrorAs(t, err, &busy)
			return busy, err
		}
		said, _ := busy()
		require.Equal(t, paths[0], said.Holder.Path)
		require.Equal(t, 20, said.Queue)

		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: paths[0]}, zktest.Fail(zktest.CodeNoAuth))
		said, err := busy()
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Zero(t, said.Holder)

		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: paths[0]}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Delete(paths[0]))
		}))
		said, err = busy()
		require.NotErrorIs(t, err, zk.ErrNoNode)
		require.Zero(t, said.Holder)
		require.Equal(t, 20, said.Queue)
	})
}

// TestTry_Refused: a try that cannot see the contenders writes nothing.
func TestTry_Refused(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSync, zktest.OpGetChildren2} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			q := queue(t, srv, "a")
			section(t, q)
			time.Sleep(time.Second)
			before := srv.Zxid()
			srv.Intercept(zktest.Match{Op: op, Path: "^" + path}, zktest.Fail(zktest.CodeNoAuth))
			_, err := q.Try(t.Context(), entry)
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.Equal(t, before, srv.Zxid())
		})
	}
}

// TestTooLarge: data that no server accepts are refused before anything is sent.
func TestTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queueWith(t, dial(t, srv, "a"), make([]byte, 1<<20))
		sent := bubble.Requests(srv)
		for name, acquire := range map[string]func() (*zkrecipes.Hold, error){
			"acquire": func() (*zkrecipes.Hold, error) { return q.Acquire(t.Context(), entry) },
			"try":     func() (*zkrecipes.Hold, error) { return q.Try(t.Context(), entry) },
			"acquire by": func() (*zkrecipes.Hold, error) {
				return q.AcquireBy(t.Context(), entry, func(context.Context, *znode.Waiter) error { return nil })
			},
		} {
			_, err := acquire()
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge, name)
		}
		synctest.Wait()
		require.Zero(t, sent.Hits())
	})
}

// A contender that the caller may not write kept those after it from being asked, however often the caller tried.
func TestRevokeAt_OneIsForbidden(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queue(t, srv, "a")
		section(t, q)
		paths := crowd(t, srv, 3)
		srv.Intercept(zktest.Match{Op: zktest.OpSetData, Path: paths[0]}, zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, znode.RevokeAt(t.Context(), q.Client(), paths...), zk.ErrNoAuth)
		for _, path := range paths[1:] {
			n, _ := srv.Node(path)
			require.Equal(t, layout.RevokeRequest, string(n.Data))
		}
	})
}
