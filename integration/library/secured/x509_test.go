package secured

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// authority signs certificates, and writes them to files.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	last int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, dir: t.TempDir(), key: key}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.write("ca.pem", block("CERTIFICATE", der))
	return a
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write replaces a file atomically.
func (a *authority) write(name string, text []byte) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(a.path(name)+".new", text, 0o600))
	require.NoError(a.t, os.Rename(a.path(name)+".new", a.path(name)))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// issue writes a new certificate for subject, valid for ten minutes, and its key into one file.
func (a *authority) issue(file string, subject pkix.Name, addresses ...net.IP) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	a.last++
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.last), Subject: subject, NotBefore: time.Now().Add(-time.Minute),
		NotAfter:    time.Now().Add(10 * time.Minute),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	a.write(file, append(block("PRIVATE KEY", pkcs8), block("CERTIFICATE", der)...))
}

// config returns what a client reads before each connection.
func (a *authority) config(file string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		own, err := tls.LoadX509KeyPair(a.path(file), a.path(file))
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, err
	}
}

// tlsServer starts a server that requires client certificates.
func tlsServer(t *testing.T, a *authority, release string, more ...zkserver.Option) (addr string) {
	t.Helper()
	host := loopback.Block()(1)
	ports, err := loopback.FreePorts(host, 1)
	require.NoError(t, err)
	a.issue("server.pem", pkix.Name{CommonName: "server"}, net.ParseIP(host))
	for name, value := range map[string]string{
		"secureClientPort": fmt.Sprint(ports[0]), "secureClientPortAddress": host,
		"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"authProvider.x509":     "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.keyStore.location": a.path("server.pem"), "ssl.keyStore.type": "PEM",
		"ssl.trustStore.location": a.path("ca.pem"), "ssl.trustStore.type": "PEM",
		"ssl.clientAuth": "need", "client.certReload": "true",
	} {
		more = append(more, zkserver.WithSetting(name, value))
	}
	zkserver.Start(t, append(more, zkserver.WithRelease(release), zkserver.WithSessionTimeouts(0, time.Minute))...)
	return net.JoinHostPort(host, fmt.Sprint(ports[0]))
}

// Certificates of the clients and of the server are replaced repeatedly, each time with new connections. No hold is
// lost, and no connection is refused.
func TestX509_CertificatesChangeUnderLocks(t *testing.T) {
	for release, times := range map[string]int{"3.9": 3, "3.8": 1} {
		t.Run(release, func(t *testing.T) { rotate(t, release, times) })
	}
}

func rotate(t *testing.T, release string, times int) {
	t.Helper()
	a := newAuthority(t)
	addr := tlsServer(t, a, release, zkserver.WithSetting("enforce.auth.enabled", "true"),
		zkserver.WithSetting("enforce.auth.schemes", "x509"))
	host, _, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	worker := pkix.Name{CommonName: "worker", Organization: []string{"Example, Inc."}}
	a.issue("client.pem", worker)
	only := conn.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: `CN=worker,O=Example\, Inc.`}})
	var log bubble.Buffer
	logged := conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sections, failed atomic.Int64
	var lines []*line
	var work sync.WaitGroup
	for range 8 {
		l := &line{addr: addr}
		c, err := conn.Dial(ctx, addr, conn.WithDialer(l.dial), conn.WithTLSFunc(a.config("client.pem")), only, logged, long)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		lines = append(lines, l)
		work.Go(func() {
			for ctx.Err() == nil {
				err := m.Do(ctx, func(context.Context, *zkrecipes.Hold) error { sections.Add(1); return nil })
				if err != nil && ctx.Err() == nil {
					failed.Add(1)
					t.Error(err)
					return
				}
			}
		})
	}
	for range times {
		time.Sleep(time.Second)
		a.issue("client.pem", worker)
		a.issue("server.pem", pkix.Name{CommonName: "server"}, net.ParseIP(host))
		for _, l := range lines {
			l.cut()
		}
	}
	cancel()
	work.Wait()
	require.Greater(t, sections.Load(), int64(8*times))
	require.Zero(t, failed.Load())
	require.NotContains(t, log.String(), "tls:", "a certificate was refused")

	a.issue("other.pem", pkix.Name{CommonName: "other"})
	other, err := conn.Dial(t.Context(), addr, conn.WithTLSFunc(a.config("other.pem")), silent)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Create(t.Context(), "/lock/x", nil, 0)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// zktest gives the same identity as a real server, whatever the name in the certificate.
func TestX509_ZktestAgreesWithReal(t *testing.T) {
	a := newAuthority(t)
	theirs := tlsServer(t, a, "3.9")
	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	own, err := tls.LoadX509KeyPair(a.path("server.pem"), a.path("server.pem"))
	require.NoError(t, err)
	ours := zktest.Run(t, zktest.WithX509(), zktest.WithRequiredAuth("x509"), zktest.WithTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}))
	for _, name := range []pkix.Name{
		{
			CommonName: "worker", Organization: []string{"Example, Inc."}, Country: []string{"DE"},
			OrganizationalUnit: []string{"a", "b"},
		},
		{
			CommonName: ` #a+b="c"\<d>;e  `, Locality: []string{"Köln"}, Province: []string{"x y"}, StreetAddress: []string{"1"},
			SerialNumber: "7", PostalCode: []string{"1"},
		},
		{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, Value: "com"},
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "u"},
			{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@b"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 4}, Value: "surname"},
		}},
	} {
		a.issue("client.pem", name)
		var lists [2][]zk.ACL
		for i, addr := range []string{theirs, ours.Addr()} {
			config, err := a.config("client.pem")()
			require.NoError(t, err)
			config.ServerName, _, _ = net.SplitHostPort(theirs)
			c, err := conn.Dial(t.Context(), addr, conn.WithTLS(config), conn.WithACL(zk.AuthACL(zk.PermAll)), silent)
			require.NoError(t, err)
			_, err = c.Create(t.Context(), "/x", nil, 0)
			require.NoError(t, err)
			lists[i], _, err = c.ACL(t.Context(), "/x")
			require.NoError(t, err)
			require.NoError(t, c.Delete(t.Context(), "/x", -1))
			require.NoError(t, c.Close())
		}
		require.Equal(t, lists[0], lists[1])
		require.Equal(t, "x509", lists[0][0].Scheme)
	}
}
