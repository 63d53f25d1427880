package conn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func newClient(t *testing.T, srv *zktest.Server, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.New(srv.Addr(), append(opts, conn.WithDialer(srv.DialAs("a")), bubble.Silent)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A service starts while its servers are unavailable, and continues when they are back, without another call.
func TestNew_ServersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		srv.Refuse(zktest.Everyone)
		began := time.Now()
		c := newClient(t, srv)
		require.Zero(t, time.Since(began))
		require.Equal(t, zkrecipes.Connecting, c.Status().State)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := c.Ready(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "wait for a session")
		require.ErrorContains(t, err, srv.Addr())

		created := make(chan error)
		go func() {
			_, err := c.Create(t.Context(), "/n", nil, 0)
			created <- err
		}()
		synctest.Wait()
		srv.Accept(zktest.Everyone)
		require.NoError(t, c.Ready(t.Context()))
		require.NoError(t, <-created)
		require.Equal(t, zkrecipes.Connected, c.Status().State)
	})
}

func TestReady_ClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		srv.Refuse(zktest.Everyone)
		c := newClient(t, srv)
		ready := make(chan error)
		go func() { ready <- c.Ready(t.Context()) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ready, zkrecipes.ErrClosed)
	})
}

func TestReady_CallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := newClient(t, srv)
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		require.ErrorIs(t, c.Ready(ctx), why)
		require.NoError(t, c.Ready(t.Context()), "the client goes on")
	})
}

func TestNew_BadInput(t *testing.T) {
	_, err := conn.New("")
	require.Error(t, err)
	_, err = conn.New("h1:2181", conn.WithSessionTimeout(0))
	require.ErrorContains(t, err, "connect to h1:2181")
}
