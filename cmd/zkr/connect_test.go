//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestConnect_NamesTheLimitAndWhatWasInTheWay(t *testing.T) {
	limit, _, errs := withLimit(t, "--connect-timeout", exit.Unreachable, []string{"refused"}, "127.0.0.1:1",
		"status", "/p")
	require.Equal(t, fmt.Sprintf("zkr: connect to 127.0.0.1:1: no session within --connect-timeout, %v (connect to "+
		"127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused); see zkr doctor\n", limit), errs)
	withLimit(t, "--connect-timeout", exit.Unreachable,
		[]string{"; see zkr doctor\n  127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n  127.0.0.1:2: dial " +
			"tcp 127.0.0.1:2: connect: connection refused\n"},
		"127.0.0.1:1,127.0.0.1:2/app", "status", "/p")
}

// TestConnect_NoSuchName: zkr waits for names that do not resolve yet, as it does for servers that do not answer.
func TestConnect_NoSuchName(t *testing.T) {
	withLimit(t, "--connect-timeout", exit.Unreachable,
		[]string{"no session within --connect-timeout", "lookup zk1.invalid"}, "zk1.invalid", "status", "/p")
}

// TestConnect_NamesFlags: errors name flags of zkr instead of options of the library.
func TestConnect_NamesFlags(t *testing.T) {
	srv := zktest.Run(t)
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("nosuch:alice:secret\n"), 0o600))
	c := dial(t, srv, conn.WithAuth("digest", "bob:secret"))
	acl, err := parseACL("auth::cdrwa")
	require.NoError(t, err)
	_, err = c.Create(t.Context(), "/private", nil, 0, acl...)
	require.NoError(t, err)
	for _, x := range []struct {
		args []string
		says string
	}{
		{
			[]string{"status", "/private"},
			"zkr: children /private: not authorized: the ACL of /private does not grant read: see --auth-file, --acl\n",
		},
		{
			[]string{"status", "--auth-file", auth, "/p"},
			"credentials refused: check the scheme and the credential given to --auth-file",
		},
		{
			[]string{"lock", "--acl", "auth::cdrwa", "/p", "--", "true"},
			"invalid ACL specified: see --acl, and --auth-file for the scheme auth\n",
		},
	} {
		_, errs := ends(t, exit.NoAccess, srv.Addr(), x.args...)
		assert.Contains(t, errs, x.says)
		assert.NotContains(t, errs, "With")
	}
}

// TestConnect_TellsOfAMissingChroot: a typo in the chroot would create a second tree whose locks are all free.
func TestConnect_TellsOfAMissingChroot(t *testing.T) {
	srv := zktest.Run(t)
	out, errs := ends(t, 0, srv.Addr()+"/ap", "status", "/p")
	assert.Contains(t, out, "/p: free: there is no such node")
	assert.Contains(t, errs, "chroot=/ap")
	_, errs = ends(t, exit.Failure, srv.Addr()+"/ap", "lock", "--require-chroot", "/p", "--", "true")
	assert.Contains(t, errs, "the chroot /ap does not exist")
	_, _, errs = run(t, srv.Addr()+"/ap", "lock", "/p", "--", "true")
	assert.Contains(t, errs, "chroot=/ap")
	_, _, errs = run(t, srv.Addr()+"/ap", "lock", "/p", "--", "true")
	assert.Empty(t, errs, "it is there now")
	ends(t, 0, srv.Addr()+"/ap", "lock", "--require-chroot", "/p", "--", "true")
	_, out, errs = run(t, srv.Addr()+"/apq", "__complete", "lock", "/")
	assert.NotContains(t, out+errs, "/apq", "a message would disturb the line that is typed")
}

// TestConnect_NoAnswerAboutTheChroot: a server that grants a session and then does not answer may answer later.
func TestConnect_NoAnswerAboutTheChroot(t *testing.T) {
	srv := zktest.Run(t)
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.DelayUntil(silent))
	withLimit(t, "--connect-timeout", exit.Unreachable, []string{"exists /"},
		srv.Addr()+"/app", "lock", "--require-chroot", "/p", "--", "true")
}
