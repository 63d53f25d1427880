package container_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/zkrecipes/zkrecipes/integration/release/container"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// pod is a network with a server, and what is needed to start zkr there as process 1 of a container.
type pod struct {
	net    *testcontainers.DockerNetwork
	server *container.Server
	zkr    string // a static program
}

func newPod(t *testing.T) *pod {
	t.Helper()
	nw, server := container.StartNamed(t, "zk")
	zkr := filepath.Join(t.TempDir(), "zkr")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", zkr, ".")
	build.Dir, build.Env = "../../../cmd/zkr", append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return &pod{nw, server, zkr}
}

// lock starts zkr with a shell command line as the entry point of a container, and waits until it has printed a word.
func (p *pod) lock(t *testing.T, word, line string) testcontainers.Container {
	t.Helper()
	c, err := testcontainers.Run(t.Context(), container.Image(),
		testcontainers.WithEntrypoint("/zkr"), testcontainers.WithCmd("lock", "-v", "/p", "--shell", line),
		testcontainers.WithEnv(map[string]string{"ZKR_SERVERS": "zk:2181", "ZKR_SESSION_TIMEOUT": "8s"}),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			HostFilePath: p.zkr, ContainerFilePath: "/zkr",
			FileMode: 0o755,
		}),
		network.WithNetwork(nil, p.net), testcontainers.WithWaitStrategy(wait.ForLog(word).WithStartupTimeout(3*time.Minute)))
	testcontainers.CleanupContainer(t, c, testcontainers.StopTimeout(0))
	require.NoError(t, err)
	return c
}

// ended waits for a container to exit, and returns its exit status and its output.
func ended(t *testing.T, c testcontainers.Container) (status int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, wait.ForExit().WaitUntilReady(ctx, c))
	state, err := c.State(ctx)
	require.NoError(t, err)
	logs, err := c.Logs(ctx)
	require.NoError(t, err)
	defer logs.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	return state.ExitCode, string(text)
}

// signal is docker kill. It reports whether the container was running.
func signal(t *testing.T, c testcontainers.Container, name string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "docker", "kill", "--signal", name, c.GetContainerID()).Run() == nil
}

// TestZkr_AsProcess1 runs zkr as the entry point of containers, without an init process.
func TestZkr_AsProcess1(t *testing.T) {
	p := newPod(t)
	ctx := t.Context()
	_, client := dial(t, p.server.Addr())
	m, err := mutex.New(client, "/p")
	require.NoError(t, err)
	free := func(t *testing.T) { // at once: the lock was released, its session did not have to expire
		t.Helper()
		h, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	}
	const deaf = `trap "" TERM; echo ready; while :; do sleep 0.05; done`

	t.Run("it reaps orphans", func(t *testing.T) {
		c := p.lock(t, "zombies", `read -r name </proc/1/comm; echo "process 1 is $name"
(sleep 0.1 &); (sleep 0.2 &); sleep 0.5; i=0; n=1
while [ $n != 0 ] && [ $i -lt 100 ]; do # one may just have ended
	i=$((i+1)); n=0
	for file in /proc/[0-9]*/stat; do read line <$file && case $line in *") Z "*) n=$((n+1)) ;; esac; done
	[ $n = 0 ] || sleep 0.1
done
echo "zombies $n"; exit 3`)
		status, said := ended(t, c)
		assert.Equal(t, 3, status, said)
		assert.Contains(t, said, "process 1 is zkr\n")
		assert.Contains(t, said, "zombies 0\n")
		free(t)
	})
	t.Run("docker stop", func(t *testing.T) {
		c := p.lock(t, "ready", `trap "echo asked; exit 4" TERM; echo ready; while :; do sleep 0.05; done`)
		require.NoError(t, c.Stop(ctx, nil)) // Docker kills after ten seconds
		status, said := ended(t, c)
		assert.Equal(t, 4, status, said)
		assert.Contains(t, said, "asked\n")
		free(t)
	})
	t.Run("docker kill with a signal", func(t *testing.T) {
		c := p.lock(t, "ready", `trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.05; done`)
		require.True(t, signal(t, c, "INT"))
		status, said := ended(t, c)
		assert.Equal(t, 5, status, said)
		assert.Contains(t, said, "interrupted\n")
		free(t)
	})
	t.Run("two interrupts kill a deaf program", func(t *testing.T) {
		c := p.lock(t, "ready", `trap "" INT; `+deaf)
		for signal(t, c, "INT") { // two that arrive together may be merged
		}
		status, said := ended(t, c)
		assert.Equal(t, 137, status, said)
		free(t)
	})
	t.Run("docker stop while it waits", func(t *testing.T) {
		h, err := m.Lock(ctx)
		require.NoError(t, err)
		c := p.lock(t, "waiting for /p with 1 ahead", `echo ran`)
		require.NoError(t, c.Stop(ctx, nil))
		status, said := ended(t, c)
		assert.Equal(t, 143, status, said)
		assert.NotContains(t, said, "ran")
		require.NoError(t, h.Release(ctx))
		free(t)
	})
	t.Run("docker kill", func(t *testing.T) {
		c := p.lock(t, "ready", deaf)
		require.True(t, signal(t, c, "KILL"))
		status, _ := ended(t, c)
		assert.Equal(t, 137, status)
		h, err := m.Lock(ctx) // once the session has expired; the kernel has killed everything in the container
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	})
}
