//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// asZkr in the environment makes the test binary zkr itself.
const asZkr = "ZKRECIPES_TEST_AS_ZKR"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asProgram:
		program(os.Args[2], os.Args[3:])
	case os.Getenv(asZkr) != "":
		main()
	default:
		os.Exit(m.Run())
	}
}

// asProgram as the first argument makes the test binary a program for zkr to run.
const asProgram = "__program"

// zkr is zkr as another process, against an address of the server that faults find by the label.
type zkr struct {
	*exec.Cmd
	out, err bytes.Buffer
}

// address opens an address of the server, whose clients have the label.
func address(t *testing.T, srv *zktest.Server, label string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.ServeAs(label, l) }) // it returns when the server is closed
	t.Cleanup(func() {
		srv.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// command prepares zkr; the test may change it before it starts.
func command(t *testing.T, servers string, args ...string) *zkr {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	z := &zkr{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	z.Env = append(os.Environ(), asZkr+"=1", "ZKR="+os.Args[0], "ZKR_SERVERS="+servers)
	z.Stdout, z.Stderr = &z.out, &z.err
	z.WaitDelay = time.Second
	return z
}

// status waits for the end, and returns the exit status.
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

// run runs zkr to its end.
func run(t *testing.T, servers string, args ...string) (status int, out, errs string) {
	t.Helper()
	z := command(t, servers, args...)
	require.NoError(t, z.Start())
	status = z.status(t)
	return status, z.out.String(), z.err.String()
}
