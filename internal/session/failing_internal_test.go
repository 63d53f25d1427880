package session

import (
	"context"
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

var errCut = errors.New("cut")

// connectionOf returns a connection of s on raw that is never up.
func connectionOf(t *testing.T, s *session, raw net.Conn) *link.Connection {
	dial := func(context.Context) (net.Conn, error) { return raw, nil }
	c, err := link.Dial(t.Context(), time.Hour, "10.0.0.1:2181", dial, owner{s})
	require.NoError(t, err)
	return c
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
	s := &session{owner: &alone{}, opts: &Config{}, up: make(chan struct{}), down: make(chan struct{}), callbacks: make(map[*lossCallback]struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	raw := &slowToClose{Conn: near, closing: make(chan struct{}), release: make(chan struct{})}
	c := connectionOf(t, s, raw)
	s.connection = c
	close(s.up)
	inCallback, callback := make(chan struct{}), make(chan struct{})
	s.callbacks[&lossCallback{true, func(*zkrecipes.LostError) { close(inCallback); <-callback }}] = struct{}{}
	failed := make(chan error, 1)
	require.True(t, s.sendOn(t.Context(), c, []request{{wire.OpSync, "/", wire.SyncFrame("/"), func(_ reply, err error) { failed <- err }}}))

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

// A goroutine may find out late that its connection is gone. The next one is not touched by that.
func TestConnection_FailsAgainWhenTheNextIsUp_TheNextStaysUp(t *testing.T) {
	s := &session{owner: &alone{}, opts: &Config{}, up: make(chan struct{}), down: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	old := connectionOf(t, s, near)
	s.connection = connectionOf(t, s, near)
	close(s.up)
	old.Fail(errCut)
	require.True(t, s.isUp())
}

// The session ends while a server is giving it to us.
func TestConnectionUp_SessionOver_LetsNothingThrough(t *testing.T) {
	client := &alone{}
	s := &session{owner: client, up: make(chan struct{}), lost: lost(zkrecipes.LossClosed, time.Now(), nil)}
	s.connectionUp()
	require.False(t, s.isUp())
	require.Zero(t, client.ups)
}

// A writer finds that the connection is gone while the reader is telling that it is up.
func TestConnectionUp_GoneAtOnce_IsDown(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	s := &session{opts: &Config{}, ensemble: &Ensemble{}, up: make(chan struct{}), down: make(chan struct{})}
	close(s.down)
	s.watches.init()
	c := connectionOf(t, s, near)
	s.connection = c
	client := &alone{log: func() { c.Fail(errCut) }}
	s.owner = client
	f := (&Session{session: s}).Follow("/", nil)
	s.connectionUp()
	require.False(t, s.isUp())
	require.True(t, f.down)
	require.Equal(t, []NewsKind{Up, Down}, kindsOf(f.Take()))
	require.ErrorIs(t, client.down.Err, errCut)
}

func kindsOf(news []News) (kinds []NewsKind) {
	for _, n := range news {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// A caller orders its later requests behind a request that was told as sent. So a request that never left must not be told so.
func TestConnection_Closed_CallIsNotToldAsSent(t *testing.T) {
	opts := &Config{MaxRequest: maxRequest}
	s := &session{owner: &alone{}, opts: opts, ensemble: &Ensemble{opts: opts}, up: make(chan struct{}), done: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	l := connectionOf(t, s, near)
	l.Drop()
	s.connection = l
	close(s.up) // its end is not told yet
	view, sent := &Session{session: s}, false
	c := newCall[wire.Children]("children", "/a", readOnly)
	require.NoError(t, launch(t.Context(), view, c, func() { sent = true }, view.childrenRequest("/a", false, c.end)))
	<-c.done
	require.ErrorIs(t, c.err, zk.ErrNoServer)
	require.False(t, sent)
}
