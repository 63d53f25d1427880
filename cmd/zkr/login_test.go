//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// portOf starts zkr serve on a loopback port and returns its host:port.
func portOf(t *testing.T, servers string, args ...string) (string, *zkr) {
	t.Helper()
	z := begin(t, servers, append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)
	return z.listensAt(t), z
}

func (z *zkr) listensAt(t *testing.T) string {
	t.Helper()
	listening := regexp.MustCompile(`listening.*address=(\S+)`)
	eventually(t, "it listens", func() bool { return listening.MatchString(z.err.String()) })
	return listening.FindStringSubmatch(z.err.String())[1]
}

func TestServe_Token(t *testing.T) {
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "token")
	const first, second = "0123456789-0123456789", "abcdefghij-abcdefghij"
	require.NoError(t, os.WriteFile(file, []byte(first+"\n"), 0o600))
	at, z := portOf(t, srv.Addr(), "--observe", "/app/leader", "--http-token-file", file)
	get := func(path string, show func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+path, nil)
		require.NoError(t, err)
		show(r)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		if answer.StatusCode == http.StatusUnauthorized {
			assert.Contains(t, answer.Header.Get("WWW-Authenticate"), "Basic ", "or no browser asks")
		}
		return firstOf(read(t, answer))
	}
	nothing := func(*http.Request) {}
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	password := func(r *http.Request) { r.SetBasicAuth("anyone", first) }
	for _, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, get(path, nothing), path)
	}
	for _, path := range []string{
		"/", "/leader", "/self", "/events", "/metrics", "/ui/", "/ui/app.js",
		"/readyz/../leader",
	} {
		require.Equal(t, http.StatusUnauthorized, get(path, nothing), path)
	}
	answer, err := http.Get("http://" + at + "/readyz") //nolint:noctx // ends with the test
	require.NoError(t, err)
	_, text := read(t, answer)
	require.Equal(t, `{"state":"ready"}`+"\n", text, "who has no token learns no names of servers")
	require.NotContains(t, z.err.String(), "refused", "who has no token yet is no attacker")
	require.Equal(t, http.StatusOK, get("/metrics", bearer(first)))
	require.Equal(t, http.StatusOK, get("/ui/", password))
	began := time.Now()
	for _, wrong := range []string{first[1:], first + "0", second} {
		require.Equal(t, http.StatusUnauthorized, get("/metrics", bearer(wrong)), wrong)
	}
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "a wrong one is slow")
	require.Contains(t, z.err.String(), "refused a request: the token is wrong")
	require.Contains(t, z.err.String(), "from=127.0.0.1:")

	require.NoError(t, os.WriteFile(file, []byte(second), 0o600))
	require.Equal(t, http.StatusOK, get("/metrics", bearer(second)))
	require.Equal(t, http.StatusUnauthorized, get("/metrics", bearer(first)))
	require.NoError(t, os.Remove(file))
	require.Equal(t, http.StatusOK, get("/metrics", bearer(second)), "while the file is away, the token before counts")
	for _, token := range []string{first, second} {
		require.NotContains(t, z.err.String(), token)
	}
}

func firstOf(status int, _ string) int { return status }

func TestServe_TLS(t *testing.T) {
	srv := zktest.Run(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	trusted := renew(t, cert, key)
	at, z := portOf(t, srv.Addr(), "--http-cert", cert, "--http-key", key, "--http-client-ca", cert)
	get := func(server, own *tls.Certificate) error {
		config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		config.RootCAs.AddCert(server.Leaf)
		if own != nil {
			config.Certificates = []tls.Certificate{*own}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/metrics", nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		if err == nil {
			require.Equal(t, http.StatusOK, firstOf(read(t, answer)))
		}
		return err
	}
	require.NoError(t, get(trusted, trusted))
	require.Error(t, get(trusted, nil), "without a certificate of its own")
	changed := renew(t, cert, key)
	require.NoError(t, get(changed, changed))
	require.Error(t, get(trusted, trusted))
	require.NoError(t, os.WriteFile(key, []byte("half"), 0o600))
	require.NoError(t, get(changed, changed), "the previous one")
	require.Contains(t, z.err.String(), "keeping the previous one")
	plain, err := net.Dial("tcp", at)
	require.NoError(t, err)
	_, err = plain.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	require.NoError(t, plain.Close())
	require.NotContains(t, z.err.String(), "http: ", "no line of another form")
}

func TestServe_BadSecrets(t *testing.T) {
	srv := zktest.Run(t)
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("secret\n"), 0o600))
	for says, args := range map[string]string{
		"want a token of at least 20 characters": "--http-token-file " + short,
		"no such file":                           "--http-token-file /none",
		"use both or neither":                    "--http-cert /none",
		"needs --http-cert":                      "--http-client-ca /none",
		"--http-cert and --http-key: open /none": "--http-cert /none --http-key /none",
	} {
		_, errs := ends(t, exit.Usage, srv.Addr(),
			append([]string{"serve", "--http", "127.0.0.1:0"}, strings.Fields(args)...)...)
		require.Contains(t, errs, says)
		require.NotContains(t, errs, "secret")
	}
}
