package session_test

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The next session is asked of a server that has not heard of what the last one has read.
func TestReads_ServerThatLagsBehindAfterTheSession_IsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, lagging *zktest.Server) {
		current := zktest.Run(t, zktest.InMemory())
		for _, srv := range []*zktest.Server{lagging, current} {
			_, err := srv.Create("/a", []byte("old"), zktest.Persistent)
			require.NoError(t, err)
		}
		for range 10 {
			require.NoError(t, current.Set("/a", []byte("new")))
		}
		servers := map[string]*zktest.Server{"10.0.0.1:2181": current, "10.0.0.2:2181": lagging}
		lagging.Refuse(zktest.Everyone)
		c := dialTo(t, "10.0.0.1,10.0.0.2", conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return servers[address].DialAs(label)(ctx, network, address)
		}))
		get := func() string {
			data, _, err := c.Get(within(t, time.Hour), "/a")
			require.NoError(t, err)
			return string(data)
		}
		end := func() { // and then there is only the one that lags
			s := live(t, c)
			_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
				current.Refuse(zktest.Everyone)
				lagging.Accept(zktest.Everyone)
				return nil
			})
			require.True(t, ok)
			current.Expire(s.ID())
			<-s.Done()
		}
		require.Equal(t, "new", get())
		end()
		time.Sleep(timeout / 2)
		require.Empty(t, lagging.Sessions())
		current.Accept(zktest.Everyone)
		require.Equal(t, "new", get())

		lagging.Refuse(zktest.Everyone)
		end()
		start := time.Now()
		require.Equal(t, "old", get())
		require.InDelta(t, timeout.Seconds(), time.Since(start).Seconds(), 3)
	})
}

// A reset, and an attempt that this client gives up, do not show that a server lags behind. Only refusals let a new session begin
// on such a server.
func TestReads_ConnectionsThatEndOtherwise_AreNoRefusals(t *testing.T) {
	for name, fault := range map[string]func(raw net.Conn) net.Conn{
		"reset": func(raw net.Conn) net.Conn { return ending{raw, syscall.ECONNRESET} },
		"given up": func(raw net.Conn) net.Conn {
			_ = raw.Close()
			return ending{silent(), io.EOF} // as some connections read that this side has closed
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, lagging *zktest.Server) {
				current := zktest.Run(t, zktest.InMemory())
				board := newSwitchboard(current.DialAs(label))
				c := dialTo(t, current.Addr(), conn.WithDialer(board.dial))
				create(t, current, "/a", "new")
				_, _, err := c.Get(t.Context(), "/a")
				require.NoError(t, err)
				s := live(t, c)
				board.connect(func(ctx context.Context, network, address string) (net.Conn, error) {
					raw, err := lagging.DialAs(label)(ctx, network, address)
					return fault(raw), err
				})
				current.Expire(s.ID())
				time.Sleep(2 * timeout)
				board.connect(lagging.DialAs(label))
				time.Sleep(timeout / 2)
				require.Empty(t, lagging.Sessions(), "it has refused for half a timeout")
				time.Sleep(3 * timeout) // with the pauses between attempts
				require.NotEmpty(t, lagging.Sessions(), "it has refused for a timeout")
			})
		})
	}
}
