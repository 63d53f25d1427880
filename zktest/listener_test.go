package zktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
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
	mute := newRaw(t, dialTCP(t, s.Addr())) // before the handshake of TLS, which must not hold up Close
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
