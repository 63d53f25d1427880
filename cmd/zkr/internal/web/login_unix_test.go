//go:build unix

package web

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogin_NamedPipe: to open one blocks until somebody writes to it, and each request with a token would do so, and
// each TLS connection.
func TestLogin_NamedPipe(t *testing.T) {
	const token = "0123456789-0123456789"
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	s := &Site{}
	require.NoError(t, s.RequireToken(file))
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	require.True(t, s.login.has(token), "the previous token is valid")
	require.ErrorContains(t, (&Site{}).RequireToken(file), "want a regular file")
	require.ErrorContains(t, (&Site{}).Encrypt(Certificates{Cert: file, Key: file}), "want a regular file")
}
