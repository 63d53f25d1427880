//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

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
		"the certificate does not match the name in --servers or --tls-server-name": {
			serve(anyone, named("zk1.example.com")), a.ca, []string{"--tls-server-name=zk9.example.com"}, exit.Unreachable,
		},
		"because it doesn't contain any IP SANs: see --tls-server-name": {
			serve(anyone, named("zk1.example.com")), a.ca, nil,
			exit.Unreachable,
		},
		"the server requires a certificate: pass --tls-cert": {serve(both, good), a.ca, nil, exit.Unreachable},
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
