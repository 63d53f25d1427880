package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// authority signs certificates and writes them to files.
type authority struct {
	ca   string // its file
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	a.ca, _, _ = a.issue(t, name, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })
	return a
}

// issue signs a certificate for 127.0.0.1; the first one is self-signed.
func (a *authority) issue(
	t *testing.T, name string, edit func(*x509.Certificate),
) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	edit(template)
	parent := a.cert
	if parent == nil {
		parent, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(certFile, cert, 0o600))
	require.NoError(t, os.WriteFile(keyFile, private, 0o600))
	pair, err = tls.X509KeyPair(cert, private)
	require.NoError(t, err)
	if a.cert == nil {
		a.cert = pair.Leaf
	}
	return certFile, keyFile, pair
}

// renew replaces two files with a self-signed certificate and its key, and returns the pair.
func renew(t *testing.T, certFile, keyFile string) *tls.Certificate {
	t.Helper()
	cert, key, pair := (&authority{}).issue(t, "renewed", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid = true, true
	})
	require.NoError(t, errors.Join(os.Rename(cert, certFile), os.Rename(key, keyFile)))
	return &pair
}

// TestTLS_FilesChange: each connection uses the current contents of the files, for both the authority and the client.
func TestTLS_FilesChange(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	var now atomic.Pointer[tls.Certificate]
	now.Store(renew(t, cert, key))
	srv := zktest.Run(t, zktest.WithTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			trusted := x509.NewCertPool()
			trusted.AddCert(now.Load().Leaf)
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*now.Load()}, ClientCAs: trusted,
				ClientAuth: tls.RequireAndVerifyClientCert,
			}, nil
		},
	}))
	flags := connectFlags{tlsCA: cert, tlsCert: cert, tlsKey: key, session: duration(10 * time.Second)}
	options, err := flags.options()
	require.NoError(t, err)
	c, err := conn.Dial(t.Context(), srv.Addr(), append(options, conn.WithLogger(silent))...)
	require.NoError(t, err)
	defer c.Close()
	session := c.Status().Session
	for range 2 {
		now.Store(renew(t, cert, key))
		srv.CutAll()
		_, _, err = c.Get(t.Context(), "/")
		require.NoError(t, err)
		require.Equal(t, session, c.Status().Session)
	}
	_, err = (&connectFlags{tlsCA: filepath.Join(dir, "none")}).options()
	require.ErrorContains(t, err, "--tls-ca: ")
}
