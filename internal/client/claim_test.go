package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The session before is kept for a claimed path only for as long as its object may need the node there.
func TestClaim_NoLongerNeedsTheSessionBefore_ItIsClosed(t *testing.T) {
	for name, done := range map[string]func(t *testing.T, c *conn.Client, claim *client.Claim){
		"seen to":  func(t *testing.T, c *conn.Client, claim *client.Claim) { claim.SeenTo(trial.Live(t, c)) },
		"left":     func(_ *testing.T, _ *conn.Client, claim *client.Claim) { claim.Leave() },
		"released": func(_ *testing.T, _ *conn.Client, claim *client.Claim) { claim.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.DialTo(t, srv.Addr()+"/app", conn.WithDialer(srv.DialAs(trial.Label)))
				claim, ok := trial.Inner(c).Claim("/a")
				require.True(t, ok)
				srv.Down()
				time.Sleep(trial.Timeout + time.Second)
				srv.Up() // each session gets a full timeout
				require.NoError(t, c.Ready(t.Context()))
				synctest.Wait()
				require.Len(t, srv.Sessions(), 2)
				done(t, c, claim)
				synctest.Wait()
				require.Len(t, srv.Sessions(), 1)
			})
		})
	}
}
