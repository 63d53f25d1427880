package zktest

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStopListening_NewConnectionsAreRefused_UntilListen(t *testing.T) {
	s := Run(t)
	r := attachTCP(t, s.Addr())
	addr := s.Addr()
	s.StopListening()
	_, err := net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, CodeOK, r.do(OpPing, nil), "open connections stay")
	require.Equal(t, addr, s.Addr())

	require.NoError(t, s.Listen(addr))
	again := newRaw(t, dialTCP(t, addr))
	require.True(t, again.connect(0, 10*time.Second, r.session, r.passwd), "data and sessions stay")
	r.closed()
}

func TestListen_AddressTakenOrServerClosed_IsAnError(t *testing.T) {
	s := Run(t)
	require.ErrorIs(t, s.Listen(s.Addr()), syscall.EADDRINUSE)
	s.Close()
	require.ErrorIs(t, s.Listen("127.0.0.1:0"), net.ErrClosed)
}
