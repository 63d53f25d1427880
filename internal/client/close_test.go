package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/node"
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

// A client is closed because it has lost its session to an outage. What that session left on the servers is gone when
// Close returns, no matter how far the client has got with it.
func TestClose_SessionBefore_IsClosedAsWell(t *testing.T) {
	for name, kept := range map[string]bool{"a kept node is being replaced": true, "it is being closed": false} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv, conn.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(100 * time.Millisecond):
						return srv.DialAs(trial.Label)(ctx, network, addr)
					}
				}))
				if kept {
					srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Delay(500*time.Millisecond))
					n, err := node.New(c, "/n", nil)
					require.NoError(t, err)
					require.NoError(t, n.Ready(t.Context()))
				}
				srv.Down()
				time.Sleep(trial.Timeout + time.Second)
				srv.Up() // each session gets a full timeout
				require.NoError(t, c.Ready(t.Context()))
				synctest.Wait()
				require.LessOrEqual(t, trial.After(func() { require.NoError(t, c.Close()) }), time.Second)
				require.Empty(t, srv.Sessions())
			})
		})
	}
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
