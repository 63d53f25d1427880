//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The environment variable asZkr makes the test binary run as zkr itself; nameServer is the address of the name server
// that it uses.
const (
	asZkr      = "ZKRECIPES_TEST_AS_ZKR"
	nameServer = "ZKRECIPES_TEST_NAME_SERVER"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asProgram:
		countInterrupts()
	case os.Getenv(asZkr) != "":
		if at := os.Getenv(nameServer); at != "" {
			names.UseAt(at)
		}
		main()
	default:
		stopIgnoring()
		os.Exit(m.Run())
	}
}

// stopIgnoring restores the default disposition, in the processes that the tests start, of signals that nohup or the &
// of a shell made the tests ignore: a signal that the tests catch is reset to its default in those processes.
func stopIgnoring() {
	for _, one := range signals.Handled {
		if signal.Ignored(one) {
			signal.Notify(make(chan os.Signal, 1), one)
		}
	}
}

// asProgram as the first argument makes the test binary the program that counts interrupts.
const asProgram = "__counts-interrupts"

// zkr is a zkr process, connected to a server address whose label faults can select.
type zkr struct {
	*exec.Cmd
	out, err bubble.Buffer
}

// address opens an address of the server whose clients carry the label.
func address(t *testing.T, srv *zktest.Server, label string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.ServeAs(label, l) }) // returns when the server is closed
	t.Cleanup(func() {
		srv.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// nodes creates persistent nodes with the same data.
func nodes(t *testing.T, srv *zktest.Server, data string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := srv.Create(path, []byte(data), zktest.Persistent)
		require.NoError(t, err)
	}
}

// command prepares a zkr process, which the test may modify before starting it. Its session outlasts the stalls of a busy
// machine.
func command(t *testing.T, servers string, args ...string) *zkr {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute) // kills a zkr that hangs
	z := &zkr{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	t.Cleanup(func() {
		cancel()
		if z.Process != nil && z.ProcessState == nil {
			_ = z.Wait() // it was killed
		}
		if t.Failed() {
			t.Logf("%q said\n%s", args, z.err.String())
		}
	})
	z.Env = append(os.Environ(), asZkr+"=1", "ZKR="+os.Args[0], "ZKR_SERVERS="+servers,
		"ZKR_SESSION_TIMEOUT=40s")
	z.Stdout, z.Stderr = &z.out, &z.err
	z.WaitDelay = 5 * time.Second // a frozen process ends late as well
	return z
}

// begin starts a zkr process.
func begin(t *testing.T, servers string, args ...string) *zkr {
	t.Helper()
	z := command(t, servers, args...)
	require.NoError(t, z.Start())
	return z
}

// lateLines matches the lines that say that zkr did not run for a while, as on a machine with too much to do.
var lateLines = regexp.MustCompile(`(?m)^.*zkr itself did not run for .*\n`)

// withoutLate returns what zkr said without the lines that every zkr may write on a busy machine.
func withoutLate(said string) string { return lateLines.ReplaceAllString(said, "") }

// after sends a signal, waits for the process to end and returns its exit status.
func (z *zkr) after(t *testing.T, signal os.Signal) int {
	t.Helper()
	require.NoError(t, z.Process.Signal(signal))
	return z.status(t)
}

// status waits for the process to end and returns its exit status.
func (z *zkr) status(t *testing.T) int {
	t.Helper()
	err := z.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		require.NoError(t, err, z.err.String())
		return 0
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return ended.ExitCode()
}

// run runs zkr to completion. See withoutLate.
func run(t *testing.T, servers string, args ...string) (status int, out, errs string) {
	t.Helper()
	z := begin(t, servers, args...)
	status = z.status(t)
	return status, z.out.String(), withoutLate(z.err.String())
}

// ends runs zkr to completion and requires its exit status.
func ends(t *testing.T, want int, servers string, args ...string) (out, errs string) {
	t.Helper()
	status, out, errs := run(t, servers, args...)
	require.Equal(t, want, status, "%q: %s%s", args, out, errs)
	return out, errs
}

// withLimit runs zkr with increasing limits until it exits with want and its message contains all words, because a slow
// zkr may not have reached a server, or may not know the reason yet, when a short limit ends. It returns the limit.
func withLimit(
	t *testing.T, flag string, want int, words []string, servers string, args ...string,
) (limit time.Duration, out, errs string) {
	t.Helper()
	for limit = 200 * time.Millisecond; ; limit *= 2 {
		var status int
		status, out, errs = run(t, servers,
			append(args[:1:1], append([]string{flag + "=" + limit.String()}, args[1:]...)...)...)
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(errs, word) })
		switch {
		case status == want && !missing:
			return limit, out, errs
		case status != want && status != exit.Unreachable || limit > 10*time.Second:
			require.Equal(t, want, status, "%q: %s%s", args, out, errs)
			require.False(t, missing, "%q: want %q", errs, words)
		}
	}
}

// eventually waits for a condition, for less time than the programs of the tests sleep.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 50*time.Second, 20*time.Millisecond, what)
}

// gone reports whether a process has ended, even if its parent has not reaped it yet.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}
