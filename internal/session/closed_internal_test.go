package session

import (
	"net"
	"testing"
	"time"

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
