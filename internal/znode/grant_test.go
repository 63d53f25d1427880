package znode

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestShare_ReleasedWhileBeingLost: a hold that is given back just before it is told that it was lost, beside another on
// the same contender. Its release waits for the node: the other, which has been lost as well, holds on to nothing.
func TestShare_ReleasedWhileBeingLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		q, err := New(bubble.Dial(t, srv, "a"), "/app/lock", false, Lock)
		require.NoError(t, err)
		outer, err := q.Acquire(t.Context(), Entry{Kind: Lock, Rule: First})
		require.NoError(t, err)
		inner, ok := q.Held(outer.Context(), Lock)
		require.True(t, ok)
		g, ok := q.above(outer.Context(), Lock)
		require.True(t, ok)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Delay(time.Second))

		ends := g.drop(nil) // what lose does first
		start := time.Now()
		require.NoError(t, inner.Release(t.Context()))
		require.Equal(t, time.Second, time.Since(start))
		require.Empty(t, srv.Ephemerals(srv.SessionOf("a")))
		for _, end := range ends {
			end(&zkrecipes.LostError{Reason: zkrecipes.LossExpired})
		}
		require.ErrorIs(t, inner.Err(), zkrecipes.ErrReleased)
		require.ErrorIs(t, outer.Err(), zkrecipes.ErrLost)
	})
}

// TestTxn_OpsThatFailOnTheContender: a mistake of the caller's own ops is returned as what it is. Nothing is written, and
// the hold is still held.
func TestTxn_OpsThatFailOnTheContender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		q, err := New(bubble.Dial(t, srv, "a"), "/app/lock", false, Lock)
		require.NoError(t, err)
		h, err := q.Acquire(t.Context(), Entry{Kind: Lock, Rule: First})
		require.NoError(t, err)
		remove := &zk.DeleteRequest{Path: h.Path(), Version: -1}
		for name, ops := range map[string][]any{
			"deleted twice":      {remove, remove},
			"deleted, then set":  {remove, &zk.SetDataRequest{Path: h.Path(), Version: -1}},
			"deleted, then read": {remove, &zk.CheckVersionRequest{Path: h.Path(), Version: -1}},
		} {
			_, err = h.Txn(t.Context(), ops...)
			require.ErrorIs(t, err, zk.ErrNoNode, name)
			require.NotErrorIs(t, err, zkrecipes.ErrFenced, name)
			require.NoError(t, h.Err(), name)
			require.NoError(t, h.Check(t.Context()), name)
		}
		require.NoError(t, srv.Delete(h.Path()))
		_, err = h.Txn(t.Context(), remove, remove)
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
	})
}

// TestHeld_DeadlinePassed: the session has not told its loss yet. Nothing is granted without a proof, also beside a hold that
// has not been asked yet.
func TestHeld_DeadlinePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		q, err := New(bubble.Dial(t, srv, "a"), "/app/lock", false, Lock)
		require.NoError(t, err)
		outer, err := q.Acquire(t.Context(), Entry{Kind: Lock, Rule: First})
		require.NoError(t, err)
		inner, ok := q.Held(outer.Context(), Lock)
		require.True(t, ok)
		require.True(t, q.Holds(inner.Context(), Lock))
		g, ok := q.above(outer.Context(), Lock)
		require.True(t, ok)
		g.stopLoss()
		srv.Stall(zktest.Label("a"), zktest.Both)
		time.Sleep(time.Until(outer.ValidUntil()))
		require.False(t, q.Holds(inner.Context(), Lock))
		_, ok = q.Held(inner.Context(), Lock)
		require.False(t, ok)
		_, err = q.Downgrade(inner.Context(), Lock, Entry{Kind: Lock, Rule: First})
		require.ErrorIs(t, err, ErrNotHeld)
	})
}
