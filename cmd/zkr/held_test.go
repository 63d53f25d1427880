//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestHeld_InACleanedDirectory: what cleans TMPDIR takes the file away, not the lock. zkr makes the file again.
func TestHeld_InACleanedDirectory(t *testing.T) {
	z := command(t, zktest.Run(t).Addr(), "lock", "--session-timeout=4s", "/p", "--shell",
		`rm -r "${ZKR_STATE%/*}"; "$ZKR" held; echo "$?"; until "$ZKR" held 2>/dev/null; do sleep 0.05; done; echo again`)
	z.Env = append(z.Env, "TMPDIR="+t.TempDir())
	require.NoError(t, z.Start())
	assert.Zero(t, z.status(t), z.err.String())
	assert.Equal(t, "66\nagain\n", z.out.String())
	assert.Contains(t, z.err.String(), "zkr: cannot tell whether the lock is held")
}

// TestHeld_AKilledZkrLeavesNoFile: it stays if the guard is killed, too.
func TestHeld_AKilledZkrLeavesNoFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	z := start(t, zktest.Run(t), "a", "lock", "/p", "--", "sleep", "60")
	z.until(t, "started")
	require.NoError(t, z.Process.Kill())
	z.status(t)
	eventually(t, "the directory is empty", func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "*"))
		return err == nil && len(left) == 0
	})
}
