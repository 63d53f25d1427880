package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// After a reconnect every waiter asks for a proof. One request is enough for all of them.
func TestFreshen_ManyWaiters_SendOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := live(t, dial(t, srv))
		time.Sleep(time.Minute)
		srv.Cut(client)
		time.Sleep(time.Minute)
		multis := requests(srv, zktest.OpMulti)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.HoldReply(time.Millisecond))
		for range 100 {
			s.Freshen()
		}
		time.Sleep(time.Second)
		require.Len(t, multis.all(), 1)
	})
}
