//go:build unix

package main

import (
	"os"
	"path/filepath"
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
