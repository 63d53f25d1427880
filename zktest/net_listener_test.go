package zktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
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

// scarce is a listener that first has no file for a connection, and then fails for good.
type scarce struct {
	net.Listener
	accepts []time.Time
	conn    net.Conn
}

func (l *scarce) Accept() (net.Conn, error) {
	l.accepts = append(l.accepts, time.Now())
	switch n := len(l.accepts); {
	case n == 11:
		return l.conn, nil
	case n < 13:
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	default:
		return nil, net.ErrClosed
	}
}

func (*scarce) Close() error   { return nil }
func (*scarce) Addr() net.Addr { return &net.TCPAddr{} }

func TestServe_TooManyOpenFiles_TriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		client, server := net.Pipe()
		l := &scarce{conn: server}
		require.ErrorIs(t, s.Serve(l), net.ErrClosed)
		var waits []time.Duration
		for i, at := range l.accepts[1:] {
			waits = append(waits, at.Sub(l.accepts[i])/time.Millisecond)
		}
		require.Equal(t, []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5}, waits)
		r := newRaw(t, client)
		require.True(t, r.connect(0, 10*time.Second, 0, nil))
	})
}

func TestTLS_OnTheListener_IsServed_AndMuteConnectionsEnd(t *testing.T) {
	cert := certificate(t)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	s := Run(t, WithTLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	nc, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: roots})
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	r := newRaw(t, nc)
	require.True(t, r.connect(0, 10*time.Second, 0, nil))
	require.Equal(t, CodeOK, r.do(OpPing, nil))
	mute := newRaw(t, dialTCP(t, s.Addr())) // before the TLS handshake, which must not hold up Close
	s.Close()
	r.closed()
	mute.closed()
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
