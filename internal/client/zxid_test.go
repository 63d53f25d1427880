package client_test

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The next session is requested from a server that has not seen what the last one has read.
func TestReads_ServerThatLagsBehindAfterTheSession_IsNotTaken(t *testing.T) {
	trial.Run(t, func(t *testing.T, lagging *zktest.Server) {
		current := zktest.Run(t, zktest.InMemory())
		for _, srv := range []*zktest.Server{lagging, current} {
			trial.Create(t, srv, "/a", "old")
		}
		for range 10 {
			require.NoError(t, current.Set("/a", []byte("new")))
		}
		servers := map[string]*zktest.Server{"10.0.0.1:2181": current, "10.0.0.2:2181": lagging}
		lagging.Refuse(zktest.Everyone)
		c := trial.DialTo(t, "10.0.0.1,10.0.0.2",
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return servers[address].DialAs(trial.Label)(ctx, network, address)
			}))
		get := func() string {
			data, _, err := c.Get(trial.Within(t, time.Hour), "/a")
			require.NoError(t, err)
			return string(data)
		}
		end := func() { // after which only the one that lags is left
			s := trial.Live(t, c)
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
		time.Sleep(trial.Timeout / 2)
		require.Empty(t, lagging.Sessions())
		current.Accept(zktest.Everyone)
		require.Equal(t, "new", get())

		lagging.Refuse(zktest.Everyone)
		end()
		start := time.Now()
		require.Equal(t, "old", get())
		require.InDelta(t, trial.Timeout.Seconds(), time.Since(start).Seconds(), 3)
	})
}

// A reset, and an attempt that this client gives up, do not show that a server lags behind. Only refusals let a new
// session begin on such a server.
func TestReads_ConnectionsThatEndOtherwise_AreNoRefusals(t *testing.T) {
	for name, fault := range map[string]func(raw net.Conn) net.Conn{
		"reset": func(raw net.Conn) net.Conn { return trial.Ending{Conn: raw, End: syscall.ECONNRESET} },
		"given up": func(raw net.Conn) net.Conn {
			_ = raw.Close()
			// Some connections read like this once this side has closed them.
			return trial.Ending{Conn: trial.Silent(), End: io.EOF}
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, lagging *zktest.Server) {
				current := zktest.Run(t, zktest.InMemory())
				board := trial.NewSwitchboard(current.DialAs(trial.Label))
				c := trial.DialTo(t, current.Addr(), conn.WithDialer(board.Dial))
				trial.Create(t, current, "/a", "new")
				_, _, err := c.Get(t.Context(), "/a")
				require.NoError(t, err)
				s := trial.Live(t, c)
				board.Connect(func(ctx context.Context, network, address string) (net.Conn, error) {
					raw, err := lagging.DialAs(trial.Label)(ctx, network, address)
					return fault(raw), err
				})
				current.Expire(s.ID())
				time.Sleep(2 * trial.Timeout)
				board.Connect(lagging.DialAs(trial.Label))
				time.Sleep(trial.Timeout / 2)
				require.Empty(t, lagging.Sessions(), "it has refused for half a timeout")
				time.Sleep(3 * trial.Timeout) // including the pauses between attempts
				require.NotEmpty(t, lagging.Sessions(), "it has refused for a timeout")
			})
		})
	}
}

// The servers grant a longer or a shorter timeout than the client requests. The one that they grant counts: it is how
// long the servers keep a session.
func TestReads_ServersGrantAnotherTimeout_RefusalsCountForThat(t *testing.T) {
	for requested, granted := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 4 * time.Second,
		24 * time.Hour:         40 * time.Second,
	} {
		t.Run(requested.String(), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, lagging *zktest.Server) {
				current := zktest.Run(t, zktest.InMemory())
				board := trial.NewSwitchboard(current.DialAs(trial.Label))
				c := trial.DialTo(t, current.Addr(), conn.WithDialer(board.Dial), conn.WithSessionTimeout(requested))
				trial.Create(t, current, "/a", "new")
				_, _, err := c.Get(t.Context(), "/a")
				require.NoError(t, err)
				s := trial.Live(t, c)
				require.Equal(t, granted, s.Timeout())
				_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() {
					board.Connect(lagging.DialAs(trial.Label))
					return nil
				})
				require.True(t, ok)
				current.Expire(s.ID())
				<-s.Done()
				time.Sleep(granted / 2)
				require.Empty(t, lagging.Sessions())
				time.Sleep(granted + 10*time.Second) // with the pauses between attempts
				require.NotEmpty(t, lagging.Sessions())
			})
		})
	}
}
