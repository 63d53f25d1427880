package rwlock_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestWithKazoo_ReadersShareAndWritersExclude(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, python *conn.Client) {
		l := newLock(t, a, rwlock.WithKazoo())
		release(t, held(t, t.Context(), l.Lock))
		kazoo := func(name string) string {
			node, err := python.Create(t.Context(), path+"/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b"+name, nil,
				zk.FlagEphemeral|zk.FlagSequence)
			require.NoError(t, err)
			return node
		}
		reader := kazoo("__rlock__")
		first := held(t, t.Context(), l.RLock) // together with kazoo's reader
		ours := bubble.Start(t.Context(), l.Lock)
		ours.Waits(t)
		writer := kazoo("__lock__")
		second := bubble.Start(t.Context(), l.RLock)
		second.Waits(t)

		queue, err := l.Queue(t.Context())
		require.NoError(t, err)
		var writes, holds []bool
		for _, c := range queue {
			writes, holds = append(writes, c.Write), append(holds, c.Holds)
		}
		require.Equal(t, []bool{false, false, true, true, false}, writes)
		require.Equal(t, []bool{true, true, false, false, false}, holds)
		require.ErrorContains(t, l.Revoke(t.Context()), reader)
		<-first.Revoked() // ours is asked nevertheless

		release(t, first)
		ours.Waits(t)
		require.NoError(t, srv.Delete(reader))
		h := ours.Granted(t, 0)
		second.Waits(t)
		inner := held(t, h.Context(), l.RLock) // a downgrade, ahead of kazoo's writer
		release(t, h)
		second.Waits(t)
		release(t, inner)
		second.Waits(t)
		require.NoError(t, srv.Delete(writer))
		release(t, second.Granted(t, 0))
		bubble.Clean(t, srv, path)
	})
}
