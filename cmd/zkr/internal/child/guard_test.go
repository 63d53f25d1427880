//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignal_SparesAnotherProcessWithTheSamePid has a command that the guard has reaped, and whose pid another process has.
func TestSignal_SparesAnotherProcessWithTheSamePid(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, other.Start())
	c := &Child{pid: other.Process.Pid, guard: &guard{pid: 1}, host: &Host{list: processes}, done: make(chan struct{})}
	require.ErrorIs(t, c.Forward(syscall.SIGKILL), os.ErrProcessDone)
	c.host.list = func() ([]process, error) { return nil, syscall.ENOSYS }
	require.NoError(t, c.Forward(syscall.SIGTERM), "without a list of processes there is the pid alone")
	var ended *exec.ExitError
	require.ErrorAs(t, other.Wait(), &ended)
	status, ok := ended.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}
