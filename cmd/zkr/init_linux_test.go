package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// asProcess1 runs zkr as process 1 of a PID namespace with its own /proc, as in a container.
func asProcess1(t *testing.T, z *zkr) {
	t.Helper()
	need.Asked(t, "a process namespace")
	unshare := []string{"--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		t.Skipf("this system does not let a test make a process namespace: %v %s", err, out)
	}
	path, err := exec.LookPath("unshare")
	require.NoError(t, err)
	z.Args = append(append([]string{path}, unshare...), z.Args...)
	z.Path = path
}

func TestProcess1_ReapsOrphans(t *testing.T) {
	srv := zktest.Run(t)
	z := command(t, srv.Addr(), "lock", "/p", "--shell", `read -r name </proc/1/comm; echo "process 1 is $name"
(sleep 0.05 &); (setsid sleep 0.1 &); sleep 0.4
i=0; while n=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z'); [ $n != 0 ] && [ $i -lt 100 ]; do i=$((i+1)); sleep 0.1; done # one may just have ended
echo "zombies: $n"; exit 3`)
	asProcess1(t, z)
	require.NoError(t, z.Start())
	assert.Equal(t, 3, z.status(t), z.err.String())
	assert.Contains(t, z.out.String(), "process 1 is zkr.test\n")
	assert.Contains(t, z.out.String(), "zombies: 0\n")
}

func TestProcess1_PassesSignalsOn(t *testing.T) {
	z := command(t, zktest.Run(t).Addr(), "lock", "/p", "--shell",
		`trap 'echo stopped; exit 4' TERM; kill -TERM 1; while :; do sleep 0.02; done`)
	asProcess1(t, z)
	require.NoError(t, z.Start())
	assert.Equal(t, 4, z.status(t), z.err.String())
	assert.Equal(t, "stopped\n", z.out.String())
}

func TestProcess1_EndsWhileItWaits(t *testing.T) {
	srv := zktest.Run(t)
	locked(t, srv, "/p", "alice")
	z := command(t, srv.Addr(), "lock", "/p", "--", "true")
	asProcess1(t, z)
	require.NoError(t, z.Start())
	eventually(t, "zkr waits", func() bool { return len(srv.Children("/p")) == 2 })
	require.NoError(t, syscall.Kill(only(t, z.Process.Pid), syscall.SIGTERM))
	assert.Equal(t, 143, z.status(t), z.err.String())
}

// only returns the only child of a process.
func only(t *testing.T, parent int) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(parent)).Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	return pid
}
