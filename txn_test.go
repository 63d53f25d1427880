package zkrecipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The contender was deleted without an event, and the context ends before the loss is confirmed. The answer to the
// transaction shows already that nothing was written.
func TestTxn_ContextEndsAfterTheGuardHasFailed_IsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		m, err := mutex.New(bubble.Dial(t, srv, "a"), "/mutex")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second) // the contender is watched
		srv.LoseWatch(zktest.Everyone, h.Path())
		require.NoError(t, srv.Delete(h.Path()))
		ctx, cancel := context.WithCancel(t.Context())
		srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: "mutex"}, zktest.Before(func(zktest.Request) {
			cancel()
			synctest.Wait()
		}))
		_, err = h.Txn(ctx, zkrecipes.OpCreate("/a", nil, 0))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, srv.Exists("/a"))
	})
}
