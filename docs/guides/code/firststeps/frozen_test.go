//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// frozenServer is the environment variable with the address of the server, for a process that TestRun_Frozen freezes.
const frozenServer = "FIRSTSTEPS_FROZEN_SERVER"

const frozenTimeout = 2 * time.Second

// TestRun_Frozen suspends processes that hold the lock, each on a different path, for longer than their session. After
// they resume, they print no time.
func TestRun_Frozen(t *testing.T) {
	if addr := os.Getenv(frozenServer); addr != "" {
		_ = run(t.Context(), addr) // the parent reads what it prints
		return
	}
	srv := zktest.Run(t, zktest.WithSessionTimeouts(frozenTimeout, frozenTimeout))
	var processes [12]frozenProcess
	for i := range processes {
		processes[i].start(t, srv.Addr()+"/"+strconv.Itoa(i))
	}
	for i := range processes {
		<-processes[i].ticks
		require.NoError(t, processes[i].cmd.Process.Signal(syscall.SIGSTOP))
	}
	time.Sleep(frozenTimeout + frozenTimeout/4)
	var late int64
	for i := range processes {
		p := &processes[i]
		before := p.printed.Load()
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		for range p.ticks { // until the process has ended
		}
		require.NoError(t, p.cmd.Wait())
		late += p.printed.Load() - before
	}
	require.Zero(t, late, "times that a process printed after its lock could pass on")
}

// frozenProcess is a process that runs the program.
type frozenProcess struct {
	cmd     *exec.Cmd
	ticks   chan struct{} // closed at the end of the output
	printed atomic.Int64
}

func (p *frozenProcess) start(t *testing.T, addr string) {
	p.ticks = make(chan struct{}, 100)
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun_Frozen$")
	p.cmd.Env = append(os.Environ(), frozenServer+"="+addr)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ticks)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Count(lines.Text(), ":") == 2 {
				p.printed.Add(1)
				p.ticks <- struct{}{}
			}
		}
	}()
}
