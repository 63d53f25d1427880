package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The server never answers that the session is closed, so a timer ends the connection and fails the calls. Close
// returns after their tracers have.
func TestClose_Unanswered_TracersHaveReturned(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var closed atomic.Bool
		var observed, late atomic.Int32
		c := trial.Dial(t, srv, conn.WithTracer(&zkrecipes.Tracer{Request: func(context.Context, zkrecipes.Request) {
			time.Sleep(time.Millisecond)
			if observed.Add(1); closed.Load() {
				late.Add(1)
			}
		}}))
		srv.Stall(trial.Ours, zktest.Both)
		for range 3 {
			go c.Exists(t.Context(), "/a") //nolint:errcheck // only its tracer matters
		}
		synctest.Wait()
		require.NoError(t, c.Close())
		closed.Store(true)
		require.EqualValues(t, 4, observed.Load(), "the three calls, and the end of the session")
		time.Sleep(time.Minute)
		require.Zero(t, late.Load())
	})
}

// A caller that was slow has missed transitions when its context ends. None of them is yielded after that.
func TestStates_ContextEnds_YieldNothingMore(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			for range c.States(ctx) {
				n++
				cancel()
				trial.Reconnect(srv, c)
			}
			require.Equal(t, 1, n)
		}
	})
}
