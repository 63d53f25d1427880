package value_test

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func opSet(t *testing.T, v *value.Value[string], x string, old value.Version) zkrecipes.Op {
	t.Helper()
	op, err := v.OpSet(x, old)
	require.NoError(t, err)
	return op
}

// OpSet replaces what was read, and nothing else.
func TestOpSet(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v, h := holder(t, srv, "a") // its lock has created the parent
		_, missing := get(t, v)
		results, err := h.Txn(t.Context(), opSet(t, v, "1", missing))
		require.NoError(t, err)
		require.Equal(t, path, results[0].Path)
		_, first := get(t, v)
		results, err = h.Txn(t.Context(), opSet(t, v, "2", first))
		require.NoError(t, err)
		x, second := get(t, v)
		require.Equal(t, "2", x)
		require.Equal(t, second.Mzxid, results[0].Stat.Mzxid)

		for _, bad := range []struct {
			old  value.Version
			want error
		}{{missing, zk.ErrNodeExists}, {first, zk.ErrBadVersion}} {
			_, err = h.Txn(t.Context(), zkrecipes.OpCreate("/beside", nil, 0), opSet(t, v, "3", bad.old))
			require.ErrorIs(t, err, bad.want)
			require.ErrorContains(t, err, path)
		}
		require.False(t, srv.Exists("/beside"), "all or none")
		require.NoError(t, srv.Delete(path))
		_, err = h.Txn(t.Context(), opSet(t, v, "3", second))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NoError(t, h.Release(t.Context()))
		_, err = h.Txn(t.Context(), opSet(t, v, "3", missing))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.False(t, srv.Exists(path))
	})
}

// The rest of the transaction is written only while the value is the one that was read.
func TestOpCheck(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		v, err := value.New(c, path, value.Text())
		require.NoError(t, err)
		_, err = v.OpCheck(value.Version{})
		require.ErrorContains(t, err, "missing node")
		old, err := v.Set(t.Context(), "1")
		require.NoError(t, err)
		check, err := v.OpCheck(old)
		require.NoError(t, err)
		_, err = c.Multi(t.Context(), check, zkrecipes.OpCreate("/a", nil, 0))
		require.NoError(t, err)
		_, err = v.Set(t.Context(), "2")
		require.NoError(t, err)
		_, err = c.Multi(t.Context(), check, zkrecipes.OpCreate("/b", nil, 0))
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.False(t, srv.Exists("/b"))
	})
}

// The path would be another node, or its version would be from another session. Nothing is sent.
func TestOps_OfAnotherClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		sub, err := c.Sub("/app")
		require.NoError(t, err)
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, of := range []*conn.Client{sub, bubble.Dial(t, srv, "b")} {
			v, err := value.New(of, path, value.Text())
			require.NoError(t, err)
			n, err := value.NewCounter(of, path, value.AtomicLong())
			require.NoError(t, err)
			check, err := v.OpCheck(value.Version{Czxid: 1})
			require.NoError(t, err)
			add, _, err := n.OpAdd(t.Context(), 1)
			require.NoError(t, err)
			sent := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
			for _, op := range []zkrecipes.Op{
				opSet(t, v, "1", value.Version{}), opSet(t, v, "1", value.Version{Czxid: 1}), check, add,
			} {
				_, err = h.Txn(t.Context(), op)
				require.ErrorContains(t, err, "want the same client and root for both", op.Kind)
				require.NotErrorIs(t, err, zkrecipes.ErrFenced)
				_, err = c.Multi(t.Context(), op)
				require.ErrorContains(t, err, "want the same client and root for both", op.Kind)
			}
			require.Zero(t, sent.Hits())
			sent.Remove()
		}
	})
}

// The sum is based on what was read, and the transaction fails if there was another addition in between. No addition is
// lost.
func TestOpAdd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "a")
		_, err := srv.Create("/app", nil, zktest.Persistent)
		require.NoError(t, err)
		c, err := value.NewCounter(client, path, value.KazooCounter())
		require.NoError(t, err)
		op, sum, err := c.OpAdd(t.Context(), 3) // creates the node
		require.NoError(t, err)
		require.EqualValues(t, 3, sum)
		_, err = client.Multi(t.Context(), op)
		require.NoError(t, err)
		require.EqualValues(t, 5, add(t, c, 2))
		op, sum, err = c.OpAdd(t.Context(), 10)
		require.NoError(t, err)
		require.EqualValues(t, 15, sum)
		require.EqualValues(t, 6, add(t, c, 1))
		_, err = client.Multi(t.Context(), op)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		op, _, err = c.OpAdd(t.Context(), 10)
		require.NoError(t, err)
		_, err = client.Multi(t.Context(), op)
		require.NoError(t, err)
		require.EqualValues(t, 17, add(t, c, 1), "Add sees what the transaction wrote")
		_, _, err = c.OpAdd(t.Context(), math.MaxInt64)
		require.ErrorContains(t, err, "does not fit")
	})
}

// The same transaction may be sent again, and adds once.
func TestOpAdd_ReplyLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		client := bubble.Dial(t, srv, "a")
		c, err := value.NewCounter(client, path, value.KazooCounter())
		require.NoError(t, err)
		add(t, c, 1)
		op, _, err := c.OpAdd(t.Context(), 10)
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: 1}, zktest.DropReply())
		_, err = client.Multi(t.Context(), op)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		_, err = client.Multi(t.Context(), op)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.Equal(t, "11", stored(t, srv, path))
		require.EqualValues(t, 12, add(t, c, 1))
	})
}
