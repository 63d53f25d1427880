package value_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v, other := text(t, srv, "a"), text(t, srv, "b")
		require.NoError(t, v.Delete(t.Context()), "there is none")
		for range 3 { // whatever the version is
			_, err := other.Set(t.Context(), "1")
			require.NoError(t, err)
		}
		require.NoError(t, v.Delete(t.Context()))
		x, version := get(t, other)
		require.Empty(t, x)
		require.False(t, version.Exists())
	})
}

// The delete is sent again, and the caller sees success.
func TestDelete_ReplyLost(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				v := text(t, srv, "a")
				_, err := v.Set(t.Context(), "1")
				require.NoError(t, err)
				lost := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 1}, action)
				require.NoError(t, v.Delete(t.Context()))
				require.Equal(t, 1, lost.Hits())
				_, version := get(t, v)
				require.False(t, version.Exists())
			})
		})
	}
}

// The node exists with another version, or it is another node with the same version. Nothing shows whether the delete
// came before that, so what another client has written is kept.
func TestDelete_ReplyLost_AnotherWrites(t *testing.T) {
	for _, writes := range [][]string{{"2"}, {"2", "3"}} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			v, other := text(t, srv, "a"), text(t, srv, "b")
			_, err := v.Set(t.Context(), "1")
			require.NoError(t, err)
			srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 1}, zktest.DropReply())
			srv.Refuse(zktest.Label("a"))
			done := make(chan error)
			go func() { done <- v.Delete(t.Context()) }()
			time.Sleep(time.Second)
			for _, x := range writes {
				_, err = other.Set(t.Context(), x)
				require.NoError(t, err)
			}
			srv.Accept(zktest.Label("a"))
			require.ErrorIs(t, <-done, zkrecipes.ErrUnknownOutcome)
			x, _ := get(t, v)
			require.Equal(t, writes[len(writes)-1], x)
		})
	}
}

// A write between the read and the delete is deleted too.
func TestDelete_AnotherIsFaster(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v, other := text(t, srv, "a"), text(t, srv, "b")
		_, err := v.Set(t.Context(), "1")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 1}, zktest.Delay(time.Second))
		done := make(chan error)
		go func() { done <- v.Delete(t.Context()) }()
		time.Sleep(500 * time.Millisecond)
		_, err = other.Set(t.Context(), "2")
		require.NoError(t, err)
		require.NoError(t, <-done)
		_, version := get(t, v)
		require.False(t, version.Exists())
	})
}

// The marker of a counter is a child of its node.
func TestDelete_Counter(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := counter(t, srv, "a")
		_, err := c.Add(t.Context(), 1)
		require.NoError(t, err)
		require.ErrorIs(t, c.Delete(t.Context()), zk.ErrNotEmpty)
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Delete(t.Context()))
		sum, err := c.Add(t.Context(), 2)
		require.NoError(t, err)
		require.EqualValues(t, 2, sum, "it begins anew")
	})
}

func TestOpDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v, h := holder(t, srv, "a")
		_, err := v.OpDelete(value.Version{})
		require.ErrorContains(t, err, "the version belongs to a missing node")
		old, err := v.Set(t.Context(), "1")
		require.NoError(t, err)
		_, err = v.Set(t.Context(), "2")
		require.NoError(t, err)
		op, err := v.OpDelete(old)
		require.NoError(t, err)
		_, err = h.Txn(t.Context(), op)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		_, old = get(t, v)
		op, err = v.OpDelete(old)
		require.NoError(t, err)
		_, err = bubble.Dial(t, srv, "b").Multi(t.Context(), op)
		require.ErrorContains(t, err, "same client and root")
		_, err = h.Txn(t.Context(), op)
		require.NoError(t, err)
		_, old = get(t, v)
		require.False(t, old.Exists())
	})
}
