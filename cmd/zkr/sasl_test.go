//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAuthFile_SASL(t *testing.T) {
	srv := zktest.Run(t, zktest.WithSASLUsers(map[string]string{"bob": "se:cret"}), zktest.WithRequiredAuth("sasl"))
	lock := func(line string) (int, string) {
		auth := filepath.Join(t.TempDir(), "auth")
		require.NoError(t, os.WriteFile(auth, []byte("# for tests\n"+line+"\n"), 0o600))
		status, _, errs := run(t, srv.Addr(), "lock", "--auth-file", auth, "--acl", "sasl:bob:cdrwa", "/p", "--", "true")
		require.NotContains(t, errs, "cret")
		return status, errs
	}
	status, errs := lock("sasl:bob:se:cret")
	require.Zero(t, status, errs)
	node, found := srv.Node("/p")
	require.True(t, found)
	require.Equal(t, "bob", node.ACL[0].ID)
	status, errs = lock("sasl:bob:wrong-cret")
	require.Equal(t, exit.NoAccess, status)
	require.Contains(t, errs, "DIGEST-MD5 as bob")
	for _, line := range []string{"sasl:bob", "sasl:bob:", "sasl::cret"} {
		status, errs = lock(line)
		require.Equal(t, exit.Usage, status)
		require.Contains(t, errs, "auth:2: want sasl:user:password")
	}
}

// TestAccess_ServersThatRequireAuthentication: zkr used to name only SASL and no flag, and to exit with 125.
func TestAccess_ServersThatRequireAuthentication(t *testing.T) {
	srv := zktest.Run(t, zktest.WithRequiredAuth("digest"))
	for _, args := range [][]string{
		{"lock", "/p", "--", "true"},
		{"sem", "-n", "2", "/s", "--", "true"},
		{"elect", "/e", "--", "true"},
		{"shard", "--count=1", "/parts", "--", "true"},
		{"status", "/p"},
		{"limit", "/l", "3"},
		{"leader", "/e"},
	} {
		_, errs := ends(t, exit.NoAccess, srv.Addr(), args...)
		require.Contains(t, errs, "the servers require authentication: pass --auth-file, --kerberos, or --tls-cert")
		require.Contains(t, errs, "the server requires authentication (-124)")
		require.NotContains(t, errs, "SASL")
	}
}

func TestAuthFile_IsLookedAt(t *testing.T) {
	srv := zktest.Run(t)
	auth := filepath.Join(t.TempDir(), "auth")
	for _, line := range []string{"digest:bob", "digest:bob:", "digest::secret"} {
		require.NoError(t, os.WriteFile(auth, []byte(line), 0o600))
		_, errs := ends(t, exit.Usage, srv.Addr(), "status", "--auth-file", auth, "/p")
		require.Contains(t, errs, "auth:1: want digest:user:password")
		require.NotContains(t, errs, "secret")
	}
	require.NoError(t, os.WriteFile(auth, []byte("digest:bob:secret"), 0o600))
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		require.NoError(t, os.Chmod(auth, mode))
		_, errs := ends(t, 0, srv.Addr(), "status", "--auth-file", auth, "/p")
		require.Equal(t, warned, strings.Contains(errs, "every user of this machine can read --auth-file"), errs)
	}
}
