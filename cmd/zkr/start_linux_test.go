package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestStart_APassingFailureIsNotFinal: the systemd unit is not restarted after 126 or 127, so a temporary failure must
// yield neither.
func TestStart_APassingFailureIsNotFinal(t *testing.T) {
	srv := zktest.Run(t)
	program := filepath.Join(t.TempDir(), "worker")
	text, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	file, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = file.Write(text)
	require.NoError(t, err)
	for _, verb := range []string{"lock", "elect"} {
		_, errs := ends(t, exit.Failure, srv.Addr(), verb, "/p", "--", program)
		require.Contains(t, errs, program+": text file busy")
	}
	require.NoError(t, file.Close())
}

// TestGuard_IsNotCalledZkr: pkill matches parts of names, and used to kill both processes.
func TestGuard_IsNotCalledZkr(t *testing.T) {
	srv := zktest.Run(t)
	out, _ := ends(t, 0, srv.Addr(), "lock", "/p", "--shell", "cat /proc/$PPID/comm")
	require.Equal(t, "lock-guard\n", out)
}
