package lifetime

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// slowToClose is a connection whose first Close waits for the test.
type slowToClose struct {
	net.Conn
	once    sync.Once
	closing chan struct{}
	release chan struct{}
}

func (c *slowToClose) Close() error {
	first := false
	c.once.Do(func() { first = true })
	if first {
		close(c.closing)
		<-c.release
	}
	return c.Conn.Close()
}

// Two goroutines find that the connection is gone. The first has closed it, the second notifies the holds.
func TestConnection_ClosedTwice_HoldsEndBeforeCallsFail(t *testing.T) {
	l := &Lifetime{
		client: &alone{}, opts: &Config{}, listener: &heard{}, up: make(chan struct{}),
		down: make(chan struct{}), callbacks: make(map[*lossCallback]struct{}),
	}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	raw := &slowToClose{Conn: near, closing: make(chan struct{}), release: make(chan struct{})}
	c := connectionOf(t, l, raw)
	l.connection = c
	close(l.up)
	inCallback, callback := make(chan struct{}), make(chan struct{})
	l.callbacks[&lossCallback{true, func(*zkrecipes.LostError) func() {
		close(inCallback)
		<-callback
		return nil
	}}] = struct{}{}
	failed := make(chan error, 1)
	require.True(t, l.sendOn(t.Context(), c, nil,
		[]Request{{
			Op: wire.OpSync, Path: "/", Frame: wire.SyncFrame("/"),
			Done: func(_ link.Reply, err error) { failed <- err },
		}}))

	var both sync.WaitGroup
	both.Go(func() { c.Fail(errors.New("first")) })
	<-raw.closing
	both.Go(func() { c.Fail(errors.New("second")) })
	<-inCallback
	close(raw.release)
	select {
	case err := <-failed:
		t.Error("a call has failed before the hold has ended:", err)
		close(callback)
	case <-time.After(50 * time.Millisecond):
		close(callback)
		require.ErrorIs(t, <-failed, zk.ErrNoServer)
	}
	both.Wait()
}

// A goroutine may find out late that its connection is gone. This does not affect the next one.
func TestConnection_FailsAgainWhenTheNextIsUp_TheNextStaysUp(t *testing.T) {
	l := &Lifetime{
		client: &alone{}, opts: &Config{}, listener: &heard{}, up: make(chan struct{}),
		down: make(chan struct{}),
	}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	old := connectionOf(t, l, near)
	l.connection = connectionOf(t, l, near)
	close(l.up)
	old.Fail(errCut)
	require.True(t, l.isUp())
}

// The session ends while a server is giving it to us.
func TestConnectionUp_SessionOver_LetsNothingThrough(t *testing.T) {
	client := &alone{}
	l := &Lifetime{client: client, up: make(chan struct{}), lost: lost(zkrecipes.LossClosed, time.Now(), nil)}
	l.connectionUp()
	require.False(t, l.isUp())
	require.Zero(t, client.ups)
}

// A writer finds that the connection is gone while the reader is reporting that it is up.
func TestConnectionUp_GoneAtOnce_IsDown(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	l := &Lifetime{opts: &Config{}, ensemble: &Ensemble{}, up: make(chan struct{}), down: make(chan struct{})}
	close(l.down)
	c := connectionOf(t, l, near)
	l.connection = c
	client := &alone{log: func() { c.Fail(errCut) }}
	l.client = client
	told := &heard{}
	l.listener = told
	l.connectionUp()
	require.False(t, l.isUp())
	require.Equal(t, heard{"up", "down"}, *told)
	require.ErrorIs(t, client.down.Err, errCut)
}

// A caller orders its later requests after a request that was reported as sent. A request that was never sent must
// therefore not be reported as such.
func TestSend_ConnectionClosed_IsNotToldAsSent(t *testing.T) {
	l := &Lifetime{opts: &Config{}, up: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	c := connectionOf(t, l, near)
	c.Drop()
	l.connection = c
	close(l.up) // its end has not been reported yet
	var failed error
	l.Send(t.Context(), func() { t.Error("told as sent") },
		[]Request{SyncRequest("/", "/", func(err error) { failed = err })})
	require.ErrorIs(t, failed, zk.ErrNoServer)
}
