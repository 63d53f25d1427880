package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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

// renew writes a self-signed certificate and its key to two files, and returns the pair.
func renew(t *testing.T, certFile, keyFile string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	require.NoError(t, os.WriteFile(certFile, cert, 0o600))
	require.NoError(t, os.WriteFile(keyFile, private, 0o600))
	pair, err := tls.X509KeyPair(cert, private)
	require.NoError(t, err)
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
