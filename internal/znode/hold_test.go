package znode_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestCheck_AsksTheLeader: a server that lags behind would report that the node exists.
func TestCheck_AsksTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		synctest.Wait()
		caughtUp := make(chan struct{})
		sync := srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: h.Path()}, zktest.DelayUntil(caughtUp))
		reads := srv.Intercept(zktest.Match{Op: zktest.OpExists, Path: h.Path()}, zktest.Proceed())
		checked := make(chan error, 1)
		go func() { checked <- h.Check(t.Context()) }()
		synctest.Wait()
		require.Equal(t, 1, sync.Hits())
		require.Zero(t, reads.Hits(), "the node is read behind the sync")
		close(caughtUp)
		require.NoError(t, <-checked)
		release(t, h)
	})
}

// TestAcquire_KeepsTheProofFreshWhileItHolds: a waiter does not keep it fresh, and neither does a hold that has ended,
// however it ended.
func TestAcquire_KeepsTheProofFreshWhileItHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		heartbeats := func(label string) int { return bubble.Syncs(srv, zktest.Label(label)) }
		a, b := queue(t, srv, "a"), queue(t, srv, "b")
		require.Zero(t, heartbeats("a"))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.Fail(zktest.CodeNoAuth))
		_, err := a.Acquire(t.Context(), entry)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Zero(t, heartbeats("a"))
		h := acquire(t.Context(), a).Granted(t, time.Hour)
		require.Positive(t, heartbeats("a"))
		ctx, cancel := context.WithCancel(t.Context())
		waiting := acquire(ctx, b)
		waiting.Waits(t)
		require.Zero(t, heartbeats("b"))
		cancel()
		require.ErrorIs(t, waiting.Failed(t, 0), context.Canceled)
		_, err = b.Try(t.Context(), entry)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.Zero(t, heartbeats("b"))
		refused := errors.New("refused")
		_, err = b.AcquireBy(t.Context(), entry, func(context.Context, *znode.Waiter) error { return refused })
		require.ErrorIs(t, err, refused)
		require.Zero(t, heartbeats("b"))
		release(t, h)
		require.Zero(t, heartbeats("a"))
		h = acquire(t.Context(), a).Granted(t, time.Hour)
		require.NoError(t, srv.Delete(h.Path()))
		require.Zero(t, heartbeats("a"), "lost")
	})
}

// The holder releases while another goroutine checks: the node is gone, but nothing was lost.
func TestCheck_ReleasedMeanwhile_IsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		gate := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: "lock-"}, zktest.HoldReplyUntil(gate))
		checked, released := make(chan error, 1), make(chan error, 1)
		go func() { checked <- h.Check(t.Context()) }()
		synctest.Wait()
		go func() { released <- h.Release(t.Context()) }()
		synctest.Wait()
		close(gate)
		require.ErrorIs(t, <-checked, zkrecipes.ErrReleased)
		require.NoError(t, <-released)
	})
}

// A holder that is cut off has the lead time to stop cleanly.
func TestExpiring_CutOff_ComesBeforeTheLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		require.Equal(t, time.Now(), h.Since())
		warning := h.Expiring(2 * time.Second)
		time.Sleep(time.Hour)
		select {
		case <-warning:
			t.Fatal("the server answers")
		default:
		}
		srv.Stall(zktest.Label("a"), zktest.Both)
		srv.Refuse(zktest.Label("a"))
		<-warning
		require.NoError(t, h.Err())
		require.Equal(t, 2*time.Second, time.Until(h.ValidUntil()))
		<-h.Done()
		srv.Heal(zktest.Label("a"))
	})
}
