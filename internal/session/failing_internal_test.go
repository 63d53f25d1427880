package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// The dial took as long as the whole attempt may take.
func TestConnection_LimitHasPassed_IsClosed(t *testing.T) {
	s := &session{core: &core{opts: &Config{}}, up: make(chan struct{})}
	for range 1000 {
		near, far := net.Pipe()
		c := newConnection(s, near, "10.0.0.1:2181", -time.Second)
		<-c.gone
		_ = far.Close()
	}
}

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

// Two goroutines find that the connection is gone. The first has closed it, the second tells the holds.
func TestConnection_ClosedTwice_HoldsEndBeforeCallsFail(t *testing.T) {
	s := &session{core: &core{opts: &Config{}, states: newStateLog()}, up: make(chan struct{}), down: make(chan struct{}), callbacks: make(map[*lossCallback]struct{})}
	s.core.log = newLogQueue()
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	raw := &slowToClose{Conn: near, closing: make(chan struct{}), release: make(chan struct{})}
	c := newConnection(s, raw, "10.0.0.1:2181", time.Minute)
	s.connection = c
	close(s.up)
	inCallback, callback := make(chan struct{}), make(chan struct{})
	s.callbacks[&lossCallback{true, func(*zkrecipes.LostError) { close(inCallback); <-callback }}] = struct{}{}
	failed := make(chan error, 1)
	require.True(t, c.ask(t.Context(), []request{{wire.OpSync, "/", wire.SyncFrame("/"), func(_ reply, err error) { failed <- err }}}))

	var both sync.WaitGroup
	both.Go(func() { c.fail(errors.New("first")) })
	<-raw.closing
	both.Go(func() { c.fail(errors.New("second")) })
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

// A goroutine may find out late that its connection is gone. The next one is not touched by that.
func TestConnection_FailsAgainWhenTheNextIsUp_TheNextStaysUp(t *testing.T) {
	s := &session{core: &core{opts: &Config{}}, up: make(chan struct{}), down: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	old := newConnection(s, near, "10.0.0.1:2181", time.Minute)
	s.connection = newConnection(s, near, "10.0.0.2:2181", time.Minute)
	defer s.connection.watchdog.Stop() // it would fire in a later test
	close(s.up)
	old.fail(errSilent)
	require.True(t, s.isUp())
}

// The session ends while a server is giving it to us.
func TestConnectionUp_SessionOver_LetsNothingThrough(t *testing.T) {
	s := &session{core: &core{opts: &Config{}, states: newStateLog()}, up: make(chan struct{}), lost: lost(zkrecipes.LossClosed, time.Now(), nil)}
	s.connectionUp()
	require.False(t, s.isUp())
	require.Equal(t, Connecting, s.core.states.current().state)
}

// duringLog is a log handler that calls a function when something is first logged.
type duringLog struct {
	slog.Handler
	called bool
	f      func()
}

func (d *duringLog) Enabled(context.Context, slog.Level) bool {
	if !d.called {
		d.called = true
		d.f()
	}
	return false
}

// A writer finds that the connection is gone while the reader is telling that it is up.
func TestConnectionUp_GoneAtOnce_IsDown(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	s := &session{up: make(chan struct{}), down: make(chan struct{})}
	close(s.down)
	s.watches.init()
	s.core = &core{states: newStateLog(), changed: make(chan struct{})}
	c := newConnection(s, near, "10.0.0.1:2181", time.Minute)
	s.connection = c
	s.core.opts = &Config{Log: slog.New(&duringLog{f: func() { c.fail(errSilent) }})}
	f := (&Session{session: s}).Follow("/", nil)
	s.connectionUp()
	require.False(t, s.isUp())
	require.True(t, f.down)
	require.Equal(t, []NewsKind{Up, Down}, kindsOf(f.Take()))
	require.ErrorIs(t, s.core.inTheWay(), errSilent)
}

func kindsOf(news []News) (kinds []NewsKind) {
	for _, n := range news {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}
