//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
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

// TestTLS_ErrorsNameTheFlag: zkr prints the errors in the guide's table, each with the flag that fixes it.
func TestTLS_ErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/zkr-reference.md")
	require.NoError(t, err)
	a, other := newAuthority(t, "authority"), newAuthority(t, "other")
	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	serve := func(auth tls.ClientAuthType, edit func(*x509.Certificate), more ...zktest.Option) string {
		_, _, pair := a.issue(t, "server", edit)
		config := &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: auth,
			MinVersion: tls.VersionTLS12,
		}
		return zktest.Run(t, append(more, zktest.WithTLS(config))...).Addr()
	}
	good := func(*x509.Certificate) {}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
	named := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, names }
	}
	shown := func(by *authority, edit func(*x509.Certificate)) []string {
		cert, key, _ := by.issue(t, "client", edit)
		return []string{"--tls-cert", cert, "--tls-key", key}
	}
	const anyone = tls.NoClientCert
	both := tls.RequireAndVerifyClientCert
	enforced := []zktest.Option{zktest.WithX509(), zktest.WithRequiredAuth("x509")}
	for says, c := range map[string]struct {
		servers, ca string
		more        []string
		status      int
	}{
		"certificate signed by unknown authority: see --tls-ca": {serve(anyone, good), other.ca, nil, exit.Unreachable},
		"certificate has expired or is not yet valid":           {serve(anyone, expired), a.ca, nil, exit.Unreachable},
		"the certificate has not the name in --servers or --tls-server-name": {
			serve(anyone, named("zk1.example.com")), a.ca, []string{"--tls-server-name=zk9.example.com"}, exit.Unreachable,
		},
		"because it doesn't contain any IP SANs: see --tls-server-name": {
			serve(anyone, named("zk1.example.com")), a.ca, nil,
			exit.Unreachable,
		},
		"the server requires a certificate: give --tls-cert": {serve(both, good), a.ca, nil, exit.Unreachable},
		"the server refused the certificate of --tls-cert":   {serve(both, good), a.ca, shown(a, expired), exit.Unreachable},
		"a port without TLS? see --tls-ca":                   {zktest.Run(t).Addr(), a.ca, nil, exit.Unreachable},
		"is this a TLS port? see --tls-ca":                   {serve(anyone, good), "", nil, exit.Unreachable},
		"the servers require authentication": {
			serve(tls.VerifyClientCertIfGiven, good, enforced...), a.ca, nil, exit.NoAccess,
		},
		"private key does not match public key": {
			serve(anyone, good), a.ca, []string{"--tls-cert", a.ca, "--tls-key", shown(a, good)[3]}, exit.Usage,
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, string(guide), "`"+says, "the table of the guide")
			args := append([]string{"status"}, c.more...)
			if c.ca != "" {
				args = append(args, "--tls-ca", c.ca)
			}
			withLimit(t, "--connect-timeout", c.status, []string{says}, c.servers, append(args, "/p")...)
		})
	}
}
