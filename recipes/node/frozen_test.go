//go:build unix

package node_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// frozenServer is the environment variable that gives the address of the server to a process that TestFrozenProcess
// freezes.
const frozenServer = "ZKRECIPES_FROZEN_SERVER"

const frozenTimeout = 2 * time.Second

// TestFrozenProcess stops a process for longer than its session lives. When the process resumes, its first check must
// not report that the node exists, and the node is created again.
func TestFrozenProcess(t *testing.T) {
	if addr := os.Getenv(frozenServer); addr != "" {
		keepAndLook(t, addr)
		return
	}
	t.Parallel()
	srv := zktest.Run(t, zktest.WithSessionTimeouts(frozenTimeout, frozenTimeout),
		zktest.WithTickTime(100*time.Millisecond))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrozenProcess$")
	child.Env = append(os.Environ(), frozenServer+"="+srv.Addr())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	said := bufio.NewScanner(out)
	require.True(t, said.Scan())
	require.Equal(t, "there", said.Text())
	for srv.Exists(path) { // its session expires
		time.Sleep(frozenTimeout / 100)
	}
	time.Sleep(frozenTimeout) // it may have stopped late
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	var lines []string
	for said.Scan() && strings.HasPrefix(said.Text(), "state: ") {
		lines = append(lines, said.Text())
	}
	require.NoError(t, child.Wait())
	require.Equal(t, []string{"state: said to be there false", "state: again"}, lines)
}

// keepAndLook keeps a node, stops its own process until the parent resumes it, and checks. The process has one
// processor, so hardly any other goroutine has run when it checks.
func keepAndLook(t *testing.T, addr string) {
	c, err := conn.Dial(t.Context(), addr, conn.WithSessionTimeout(frozenTimeout))
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // never fails
	n, err := node.New(c, path, []byte("1"))
	require.NoError(t, err)
	require.NoError(t, n.Ready(t.Context()))
	first := n.State().Czxid
	runtime.GOMAXPROCS(1)
	fmt.Println("there")
	last := time.Now()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	for now := time.Now(); now.Sub(last) < frozenTimeout; now = time.Now() { // a thread continues to run for a moment
		last = now
	}
	s := n.State()
	fmt.Println("state: said to be there", s.Current && s.Czxid == first)
	for s := range n.Watch(t.Context()) { //nolint:errcheck // its error does not matter
		if s.Exists && s.Czxid > first {
			fmt.Println("state: again")
			return
		}
	}
}
