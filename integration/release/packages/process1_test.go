package packages

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestZkr_AsProcess1 runs zkr as the entry point of containers, without an init process.
func TestZkr_AsProcess1(t *testing.T) {
	needs(t, "docker", "tar")
	zkr := filepath.Join(t.TempDir(), "zkr")
	t.Setenv("CGO_ENABLED", "0")
	run(t, "go", "-C", "../../../cmd/zkr", "build", "-o", zkr, ".")
	image := strings.TrimSpace(run(t, "docker", "import", debian(t)))
	defer run(t, "docker", "rmi", image)
	ctx, srv := t.Context(), zktest.Run(t)
	client, err := conn.Dial(ctx, srv.Addr())
	require.NoError(t, err)
	defer client.Close()
	m, err := mutex.New(client, "/p")
	require.NoError(t, err)
	free := func(t *testing.T) { // at once: the lock was released, its session did not have to expire
		t.Helper()
		h, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	}
	// lock runs a shell command line under zkr, and returns the container once it has printed a word.
	lock := func(t *testing.T, word, line string) (container string) {
		t.Helper()
		container = strings.TrimSpace(run(t, "docker", "create", "--network=host", "--volume="+zkr+":/zkr",
			"--entrypoint=/zkr", "--env=ZKR_SERVERS="+srv.Addr(), "--env=ZKR_SESSION_TIMEOUT=8s",
			image, "lock", "-v", "/p", "--shell", line))
		t.Cleanup(func() {
			assert.NoError(t, exec.CommandContext(context.WithoutCancel(ctx), "docker", "rm", "--force", container).Run())
		})
		run(t, "docker", "start", container)
		eventually(t, word, func() bool { return strings.Contains(run(t, "docker", "logs", container), word) })
		return container
	}
	// ended waits for a container to exit, and returns its exit status and its output.
	ended := func(t *testing.T, container string) (status, said string) {
		t.Helper()
		status = strings.TrimSpace(run(t, "docker", "wait", container))
		return status, run(t, "docker", "logs", container)
	}
	const deaf = `trap "" TERM; echo ready; while :; do sleep 0.05; done`

	t.Run("it reaps orphans", func(t *testing.T) {
		c := lock(t, "zombies", `read -r name </proc/1/comm; echo "process 1 is $name"
(sleep 0.1 &); (sleep 0.2 &); sleep 0.5; i=0; n=1
while [ $n != 0 ] && [ $i -lt 100 ]; do # one may just have ended
	i=$((i+1)); n=0
	for file in /proc/[0-9]*/stat; do read line <$file && case $line in *") Z "*) n=$((n+1)) ;; esac; done
	[ $n = 0 ] || sleep 0.1
done
echo "zombies $n"; exit 3`)
		status, said := ended(t, c)
		assert.Equal(t, "3", status, said)
		assert.Contains(t, said, "process 1 is zkr\n")
		assert.Contains(t, said, "zombies 0\n")
		free(t)
	})
	t.Run("docker stop", func(t *testing.T) {
		c := lock(t, "ready", `trap "echo asked; exit 4" TERM; echo ready; while :; do sleep 0.05; done`)
		run(t, "docker", "stop", c) // kills after ten seconds
		status, said := ended(t, c)
		assert.Equal(t, "4", status, said)
		assert.Contains(t, said, "asked\n")
		free(t)
	})
	t.Run("docker kill with a signal", func(t *testing.T) {
		c := lock(t, "ready", `trap "echo interrupted; exit 5" INT; echo ready; while :; do sleep 0.05; done`)
		run(t, "docker", "kill", "--signal=INT", c)
		status, said := ended(t, c)
		assert.Equal(t, "5", status, said)
		assert.Contains(t, said, "interrupted\n")
		free(t)
	})
	t.Run("two interrupts kill a deaf program", func(t *testing.T) {
		c := lock(t, "ready", `trap "" INT; `+deaf)
		for exec.CommandContext(ctx, "docker", "kill", "--signal=INT", c).Run() == nil { // two at once may be merged
		}
		status, said := ended(t, c)
		assert.Equal(t, "137", status, said)
		free(t)
	})
	t.Run("docker stop while it waits", func(t *testing.T) {
		h, err := m.Lock(ctx)
		require.NoError(t, err)
		c := lock(t, "waiting for /p with 1 ahead", `echo ran`)
		run(t, "docker", "stop", c)
		status, said := ended(t, c)
		assert.Equal(t, "143", status, said)
		assert.NotContains(t, said, "ran")
		require.NoError(t, h.Release(ctx))
		free(t)
	})
	t.Run("docker kill", func(t *testing.T) {
		c := lock(t, "ready", deaf)
		run(t, "docker", "kill", c)
		status, _ := ended(t, c)
		assert.Equal(t, "137", status)
		h, err := m.Lock(ctx) // once the session has expired; the kernel has killed everything in the container
		require.NoError(t, err)
		require.NoError(t, h.Release(ctx))
	})
}
