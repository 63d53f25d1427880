//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestProgram_Status runs the program of the guide as a process. It succeeds if it is interrupted, even while it waits
// for the lock, but fails if it loses the lock.
func TestProgram_Status(t *testing.T) {
	srv := zktest.Run(t)
	program := build(t, srv.Addr())
	contenders := func(n int) func() bool {
		return func() bool { return len(srv.Children("/firststeps/clock")) == n }
	}

	holder := launch(t, program)
	require.Eventually(t, contenders(1), 10*time.Second, time.Millisecond)
	session := srv.Sessions()[0].ID
	waiter := launch(t, program)
	require.Eventually(t, contenders(2), 10*time.Second, time.Millisecond)
	require.NoError(t, waiter.Process.Signal(syscall.SIGTERM))
	require.Zero(t, waiter.status(t), "interrupted while it waited")

	require.True(t, srv.Expire(session))
	require.Equal(t, 1, holder.status(t), "lost the lock")
	require.Regexp(t, `lost \((expired|node-deleted)\)`, holder.said.String(), "whichever the server tells first")

	holder = launch(t, program)
	require.Eventually(t, contenders(1), 10*time.Second, time.Millisecond)
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	require.Zero(t, holder.status(t), "interrupted while it held the lock")
}

// build compiles the program, for a server at addr.
func build(t *testing.T, addr string) (program string) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	before, after, found := bytes.Cut(source, []byte("localhost:2181"))
	require.True(t, found)
	dir := t.TempDir()
	main := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(main, bytes.Join([][]byte{before, after}, []byte(addr)), 0o600))
	here, err := filepath.Abs("main.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: main}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600))
	program = filepath.Join(dir, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay"), "-o", program,
		".").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// process runs the program.
type process struct {
	*exec.Cmd
	said bytes.Buffer // standard error
}

func launch(t *testing.T, program string) *process {
	p := &process{Cmd: exec.CommandContext(t.Context(), program)}
	p.Stderr = &p.said
	require.NoError(t, p.Start())
	return p
}

// status waits for the end of the process.
func (p *process) status(t *testing.T) int {
	err := p.Wait()
	if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) {
		require.NoError(t, err)
	}
	return p.ProcessState.ExitCode()
}
