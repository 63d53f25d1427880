//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestHeld_InACleanedDirectory: a cleaner of TMPDIR removes the file, not the lock. zkr creates the file again.
func TestHeld_InACleanedDirectory(t *testing.T) {
	t.Parallel()
	z := command(t, zktest.Run(t).Addr(), "lock", "/p", "--shell",
		`rm -r "${ZKR_STATE%/*}"; "$ZKR" held; echo "$?"; until "$ZKR" held 2>/dev/null; do sleep 0.2; done; echo again`)
	z.Env = append(z.Env, "TMPDIR="+t.TempDir())
	require.NoError(t, z.Start())
	assert.Zero(t, z.status(t), z.err.String())
	assert.Equal(t, "66\nagain\n", z.out.String())
	assert.Contains(t, z.err.String(), "zkr: cannot tell whether the lock is held")
}

// TestHeld_AKilledZkrLeavesNoFile: if the guard is killed too, the file remains.
func TestHeld_AKilledZkrLeavesNoFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	z := start(t, zktest.Run(t), "a", "lock", "/p", "--", "sleep", "300")
	z.until(t, "started")
	require.NoError(t, z.Process.Kill())
	z.status(t)
	eventually(t, "the directory is empty", func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "*"))
		return err == nil && len(left) == 0
	})
}

// TestHeld_StaysLost: a program that has been asked to stop does not see the lock as held again, even after a server
// answers.
func TestHeld_StaysLost(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	connected := filepath.Join(t.TempDir(), "connected")
	z := start(t, srv, "a", "lock", "-v", "--session-timeout=36s", "--grace=15s", "/p", "--", "sh", "-c",
		`trap 'until test -e "$0"; do sleep 0.05; done; sleep 1; "$ZKR" held; echo "$?"; exit 0' TERM
		echo ready; while :; do sleep 0.05; done`, connected)
	z.until(t, "started")
	eventually(t, "the program is ready", func() bool { return strings.Contains(z.out.String(), "ready") })
	srv.Refuse(zktest.Label("a"))
	srv.Cut(zktest.Label("a"))
	z.until(t, "term")
	srv.Accept(zktest.Label("a"))
	eventually(t, "a server answers", func() bool { return strings.Count(z.err.String(), "zookeeper: connected") == 2 })
	require.NoError(t, os.WriteFile(connected, nil, 0o600))
	assert.Equal(t, exit.Lost, z.status(t))
	assert.Equal(t, "ready\n79\n", z.out.String())
}

// TestHeld_TemporaryDirectory: the program may change its directory. Without a place for the file it is not run.
func TestHeld_TemporaryDirectory(t *testing.T) {
	srv := zktest.Run(t)
	for directory, want := range map[string]int{".": 0, "/no/such": exit.Failure} {
		z := command(t, srv.Addr(), "lock", "/p", "--shell", `cd / && exec "$ZKR" held`)
		z.Dir = t.TempDir()
		z.Env = append(z.Env, "TMPDIR="+directory)
		require.NoError(t, z.Start())
		assert.Equal(t, want, z.status(t))
		assert.Equal(t, want != 0, strings.Contains(z.err.String(), "create the file for ZKR_STATE"), z.err.String())
	}
}
