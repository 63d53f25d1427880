package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// asRoot as the first argument makes the test binary a program that becomes root, as sudo does, if it may.
const asRoot = "__becomes-root"

func init() {
	if len(os.Args) < 2 || os.Args[1] != asRoot {
		return
	}
	if syscall.Setuid(0) != nil {
		os.Exit(3)
	}
	time.Sleep(3 * time.Second) // nothing else ends it
	os.Exit(0)
}

// TestSetuid runs zkr as a user. Nothing told of a program that had become root and could not be stopped.
func TestSetuid(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes a program that becomes root")
	}
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
	prepare := func(args ...string) *zkr {
		z := command(t, srv.Addr(), append(append([]string{"lock", "--cgroup=false"}, args...), "/p", "--", root, asRoot)...)
		z.Path, z.Dir = program, "/"
		z.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.NoError(t, z.Start())
		return z
	}
	assert.Equal(t, 3, prepare().status(t), "it may not become root")
	z := command(t, srv.Addr(), "lock", "--cgroup=false", "/p", "--", program, asRoot)
	z.Path, z.Dir = program, "/"
	z.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_SETUID},
	}
	require.NoError(t, z.Start())
	if z.status(t) == 0 { // a container may lack the capability
		assert.Contains(t, z.err.String(), "runs as another user, so zkr cannot stop it", "it needs no other privileges for that")
	}
	z = prepare("--allow-setuid")
	if z.status(t) == 3 {
		t.Skip("this system runs no program as another user")
	}
	assert.Contains(t, z.err.String(), "only a control group ends what the program runs as another user")
	assert.Contains(t, z.err.String(), "runs as another user, so zkr cannot stop it")
}
