package conn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// identity is a self-signed certificate and a pool that trusts only that certificate.
type identity struct {
	own   tls.Certificate
	roots *x509.CertPool
}

func newIdentity(t *testing.T) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"zk.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots}
}

// Servers and clients change their certificates, trust no older ones, and connections end all the time, but no hold is
// lost. If the change comes between the two sides of a handshake, that connection is refused, and the next one is not.
func TestTLS_CertificatesChange(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[identity]
	now.Store(newIdentity(t))
	var sections atomic.Int64
	srv := zktest.Run(t, zktest.WithTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			id := now.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{id.own}, ClientCAs: id.roots,
				ClientAuth: tls.RequireAndVerifyClientCert,
			}, nil
		},
	}))
	config := func() (*tls.Config, error) {
		id := now.Load()
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: id.roots, Certificates: []tls.Certificate{id.own}}, nil
	}
	var working sync.WaitGroup
	var enough atomic.Bool
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	for range 8 {
		c, err := conn.Dial(t.Context(), srv.Addr(), conn.WithTLSFunc(config), conn.WithSessionTimeout(40*time.Second),
			conn.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		defer c.Close()
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		working.Go(func() {
			for !enough.Load() {
				h, err := m.Lock(ctx)
				if err != nil {
					fail(err)
					return
				}
				sections.Add(1)
				time.Sleep(time.Millisecond)
				if err = errors.Join(h.Err(), h.Release(ctx)); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	for range 12 {
		now.Store(newIdentity(t))
		srv.CutAll()
		for goal := sections.Load() + 20; ctx.Err() == nil && sections.Load() < goal; {
			time.Sleep(time.Millisecond)
		}
	}
	enough.Store(true)
	working.Wait()
	require.NoError(t, context.Cause(ctx))
}

// Between the writes of two files, neither can be used. The previous configuration stays in use, and a log line
// reports it.
func TestTLS_CannotBeReadForAWhile(t *testing.T) {
	t.Parallel()
	id := newIdentity(t)
	srv := zktest.Run(t, zktest.WithTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{id.own},
	}))
	var broken atomic.Bool
	var log bubble.Buffer
	c, err := conn.Dial(t.Context(), srv.Addr(), conn.WithTLSFunc(func() (*tls.Config, error) {
		if broken.Load() {
			return nil, errors.New("half a file")
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: id.roots}, nil
	}), conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	defer c.Close()
	session := c.Status().Session
	broken.Store(true)
	srv.CutAll()
	_, _, err = c.Get(t.Context(), "/")
	require.NoError(t, err)
	require.Equal(t, session, c.Status().Session)
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "keeping the previous one") && strings.Contains(log.String(), "half a file")
	}, time.Minute, 10*time.Millisecond)
}

func TestTLS_BadFunctions(t *testing.T) {
	t.Parallel()
	_, err := conn.New("zk1", conn.WithTLSFunc(nil))
	require.ErrorContains(t, err, "tls: nil function")
	_, err = conn.New("zk1", conn.WithTLSFunc(func() (*tls.Config, error) { return nil, errors.New("no such file") }))
	require.ErrorContains(t, err, "tls: no such file")
	_, err = conn.New("zk1",
		conn.WithTLSFunc(func() (*tls.Config, error) { return nil, nil })) //nolint:nilnil // that is the fault
	require.ErrorContains(t, err, "neither a configuration nor an error")
}

// TestTLS: the server is verified by the name or address in the connect string, and against the given roots.
func TestTLS(t *testing.T) {
	id := newIdentity(t)
	srv := zktest.Run(t, zktest.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{id.own}}))
	toServer := conn.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, srv.Addr())
	})
	trusting := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: id.roots}
	for _, address := range []string{srv.Addr(), "zk.example:2281"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := conn.Dial(ctx, address, conn.WithTLS(trusting), toServer, bubble.Silent)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Sync(t.Context(), "/"))
	}

	// refused dials until the second attempt, when the first has failed, and returns the reason.
	refused := func(config *tls.Config) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dials := 0
		_, err := conn.Dial(ctx, srv.Addr(), conn.WithTLS(config), conn.WithConnectTimeout(time.Minute), bubble.Silent,
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials > 1 {
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}))
		require.ErrorIs(t, err, context.Canceled)
		return err
	}
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, refused(&tls.Config{MinVersion: tls.VersionTLS12}), &unknown)
	wrongServer := trusting.Clone()
	wrongServer.ServerName = "other.example"
	var wrongName x509.HostnameError
	require.ErrorAs(t, refused(wrongServer), &wrongName)
}
