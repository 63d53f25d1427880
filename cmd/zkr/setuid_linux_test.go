package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// asRoot as the first argument makes the test binary a program that becomes root if it may, as sudo does.
const asRoot = "__becomes-root"

func init() {
	if len(os.Args) < 2 || os.Args[1] != asRoot {
		return
	}
	if syscall.Setuid(0) != nil {
		os.Exit(3)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // only the test can end it
	os.Exit(0)
}

// TestSetuid runs zkr as an unprivileged user. A program that had become root and could not be stopped used to go
// unreported.
func TestSetuid(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	binary, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	program, root := filepath.Join(dir, "zkr"), filepath.Join(dir, "root")
	for name, mode := range map[string]os.FileMode{program: 0o755, root: 0o755 | os.ModeSetuid} {
		require.NoError(t, os.WriteFile(name, binary, 0o755)) //nolint:gosec // another user executes it
		require.NoError(t, os.Chmod(name, mode))
	}
	for _, one := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(one, 0o755)) //nolint:gosec // another user executes files there
	}
	srv := zktest.Run(t)
	const told = "runs as another user, so zkr cannot stop it"
	// as runs zkr as a user. A program that becomes root ends once zkr has reported it.
	as := func(caps []uintptr, args ...string) (status int, errs string) {
		z := command(t, srv.Addr(), append(append([]string{"lock", "--cgroup=false"}, args...), asRoot)...)
		z.Path, z.Dir = program, "/"
		z.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
		stdin, hold, err := os.Pipe()
		require.NoError(t, err)
		z.Stdin = stdin
		require.NoError(t, z.Start())
		require.NoError(t, stdin.Close())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			status = z.status(t)
		}()
		t.Cleanup(func() { // also if the wait below fails
			_ = hold.Close() // it may have been closed
			<-ended
		})
		eventually(t, "it is told of, or may not become root", func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Contains(z.err.String(), told)
			}
		})
		require.NoError(t, hold.Close())
		<-ended
		if status == 0 {
			assert.Contains(t, z.err.String(), told)
		}
		return status, z.err.String()
	}
	status, errs := as(nil, "/p", "--", root)
	assert.Equal(t, 3, status, "it may not become root: %s", errs)
	// A container may lack the capability. Reporting needs no other privileges.
	status, errs = as([]uintptr{unix.CAP_SETUID}, "/p", "--", program)
	assert.Contains(t, []int{0, 3}, status, errs)
	status, errs = as(nil, "--allow-setuid", "/p", "--", root)
	if status == 3 {
		t.Skip("this system runs no program as another user")
	}
	assert.Zero(t, status, errs)
	assert.Contains(t, errs, "only a control group can stop processes that the program runs as another user")
}

// TestRegister_GainsPrivileges: a program without a lock may run set-user-id programs, and use its file capabilities.
func TestRegister_GainsPrivileges(t *testing.T) {
	const line = "NoNewPrivs:"
	z := registering(t, zktest.Run(t), "grep "+line+" /proc/self/status", "--check=none")
	require.Zero(t, z.status(t), z.err.String())
	own, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	require.Contains(t, string(own), z.out.String())
	require.Contains(t, z.out.String(), line)
}
