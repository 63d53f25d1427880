package zktest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/mempipe"
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

// TestServe_ListenerClosedByItsOwner_IsNotLogged: that is no failure.
func TestServe_ListenerClosedByItsOwner_IsNotLogged(t *testing.T) {
	var logged bytes.Buffer
	defer func(l *slog.Logger, w io.Writer, flags int) { // SetDefault redirects package log, too
		slog.SetDefault(l)
		log.SetOutput(w)
		log.SetFlags(flags)
	}(slog.Default(), log.Writer(), log.Flags())
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	l := &one{conns: make(chan net.Conn)}
	require.NoError(t, l.Close())
	require.ErrorIs(t, Run(t, InMemory()).Serve(l), net.ErrClosed)
	require.Empty(t, logged.String())
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

// one is a listener that accepts one connection.
type one struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *one) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}
func (*one) Addr() net.Addr { return &net.TCPAddr{} }

// TestTLS_HandshakeIsAnswered_OnlyWhenPacketsPass: a process that is stopped does not speak TLS either.
func TestTLS_HandshakeIsAnswered_OnlyWhenPacketsPass(t *testing.T) {
	for name, fault := range map[string]func(*Server) (end func()){
		"frozen": func(s *Server) func() { s.Freeze(); return s.Thaw },
		"stalled": func(s *Server) func() {
			s.Stall(Label("a"), ToServer)
			return func() { s.Heal(Label("a")) }
		},
		"answers stalled": func(s *Server) func() {
			s.Stall(Label("a"), FromServer)
			return func() { s.Heal(Everyone) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cert := certificate(t)
				roots := x509.NewCertPool()
				roots.AddCert(cert.Leaf)
				s := Run(t, InMemory())
				end := fault(s)
				near, far := mempipe.New(&net.TCPAddr{}, &net.TCPAddr{})
				l := &one{conns: make(chan net.Conn, 1)}
				l.conns <- tls.Server(far, &tls.Config{Certificates: []tls.Certificate{cert}})
				go func() { _ = s.ServeAs("a", l) }() // ends with the server
				client := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
				t.Cleanup(func() { _ = client.Close() })
				secured := make(chan error, 1)
				go func() { secured <- client.Handshake() }()
				synctest.Wait()
				require.Empty(t, secured)
				end()
				require.NoError(t, <-secured)
				require.True(t, newRaw(t, client).connect(0, 10*time.Second, 0, nil))
			})
		})
	}
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
