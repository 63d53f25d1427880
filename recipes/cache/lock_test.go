package cache_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// breaking is a socket whose writes can be made to fail.
type breaking struct {
	net.Conn
	broken *atomic.Bool
}

func (b breaking) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return b.Conn.Write(p)
}

// Close does not wake the goroutine that reads, which would report the loss as well.
func (b breaking) Close() error {
	if b.broken.Load() {
		return nil
	}
	return b.Conn.Close()
}

// The engine writes to a socket itself. If the write fails, it reports the loss of holds. A slow tracer must not block
// a reader of the cache then.
func TestCache_WriteFails_NoLockIsHeldWhileTracersAreTold(t *testing.T) {
	srv := zktest.Run(t)
	create(t, srv, root)
	var broken atomic.Bool
	var c *cache.Cache
	told := make(chan bool, 1)
	atEnd := func(context.Context, zkrecipes.HoldEnd) {
		read := make(chan struct{})
		go func() {
			c.View()
			close(read)
		}()
		select {
		case <-read:
			told <- true
		case <-time.After(5 * time.Second):
			told <- false
		}
	}
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithTracer(&zkrecipes.Tracer{HoldEnd: atEnd}), conn.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = raw.Close() })
			return breaking{raw, &broken}, nil
		}))
	require.NoError(t, err)
	c, err = cache.Node(client, root)
	require.NoError(t, err)
	ready(t, c)
	m, err := mutex.New(client, "/lock", mutex.WithLossOnSuspend())
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	broken.Store(true)
	require.Error(t, c.Sync(within(t, 100*time.Millisecond)))
	require.True(t, <-told)
	require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
	broken.Store(false)
	srv.Cut(zktest.Everyone)
	require.NoError(t, client.Close())
}
