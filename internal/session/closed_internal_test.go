package session

import (
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// The connection closes after a call has seen that it is up: it must refuse the call, which would never be answered.
func TestConnection_Closed_TakesNoCall(t *testing.T) {
	s := &session{core: &core{opts: &Config{}}, up: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	l := newConnection(s, near, "10.0.0.1:2181", time.Minute)
	require.NoError(t, l.Close())
	answered := false
	require.False(t, l.ask(t.Context(), []request{{wire.OpSync, "/", wire.SyncFrame("/"), func(reply, error) { answered = true }}}))
	require.False(t, answered)
}

func TestReadHeader_FrameShorterThanAHeader_IsAnError(t *testing.T) {
	for size := range wire.ReplyHeaderSize {
		_, _, err := wire.ReadHeader(make([]byte, size))
		require.Error(t, err)
	}
}

// A caller orders its later requests behind a request that was told as sent. So a request that never left must not be told so.
func TestConnection_Closed_CallIsNotToldAsSent(t *testing.T) {
	s := &session{core: &core{opts: &Config{MaxRequest: maxRequest}}, up: make(chan struct{}), done: make(chan struct{})}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	l := newConnection(s, near, "10.0.0.1:2181", time.Minute)
	require.NoError(t, l.Close())
	s.connection = l
	close(s.up) // its end is not told yet
	view, sent := &Session{session: s}, false
	c := newCall[wire.Children]("children", "/a", readOnly)
	require.NoError(t, launch(t.Context(), view, c, func() { sent = true }, view.childrenRequest("/a", false, c.end)))
	<-c.done
	require.ErrorIs(t, c.err, zk.ErrNoServer)
	require.False(t, sent)
}
