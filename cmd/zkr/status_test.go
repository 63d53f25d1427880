//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestStatus: while a program runs under a lock, its holder is shown, for people and for scripts.
func TestStatus(t *testing.T) {
	srv := zktest.Run(t)
	status, out, errs := run(t, srv.Addr(), "lock", "--id", "web1/42", "/jobs/nightly", "--shell", "$ZKR status -r /; $ZKR status -o json /jobs/nightly; $ZKR status -o value /jobs/nightly /jobs")
	require.Zero(t, status, errs)
	require.Regexp(t, `(?s)^/jobs/nightly \(mutex\): held by web1/42\n  PLACE  MODE   ID       HOST\s+PROCESS  AGE\s+SINCE\s+TOKEN\s+SESSION\n`+
		`  holds  mutex  web1/42  \S+\s+\d+\s+\S+\s+\S+Z\s+\d+\s+0x[0-9a-f]+\n(\{.*\})\n/jobs/nightly\theld\n/jobs\tfree\n$`, out)
	var view snapshot
	start := len(out) - len("/jobs/nightly\theld\n/jobs\tfree\n")
	begin := 0
	for i := range out {
		if out[i] == '{' {
			begin = i
			break
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out[begin:start]), &view))
	require.Len(t, view.Queues, 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, host, view.Queues[0].Holders[0].Host, "--id keeps it")
	assert.Positive(t, view.Queues[0].Holders[0].Token)
}

// TestStatus_NothingBelow: people see that there was an answer, also in a pipe. Scripts, and cron, get nothing.
func TestStatus_NothingBelow(t *testing.T) {
	srv := zktest.Run(t)
	x := inTerminal(t, command(t, srv.Addr(), "status", "-r", "/jobs"))
	x.shows(t, "no contenders at or below /jobs")
	assert.Zero(t, x.status(t))
	x = inTerminal(t, command(t, srv.Addr(), "status", "-r", "--stuck=10m", "/jobs"))
	x.shows(t, "zkr: no queue at or below /jobs is stuck")
	assert.Zero(t, x.status(t))
	status, out, errs := run(t, srv.Addr(), "status", "-r", "/jobs")
	assert.Zero(t, status)
	assert.Equal(t, "no contenders at or below /jobs\n", out+errs)
	for _, flag := range []string{"-o=value", "--stuck=10m"} {
		status, out, errs := run(t, srv.Addr(), "status", "-r", flag, "/jobs")
		assert.Zero(t, status)
		assert.Empty(t, out+errs)
	}
}

// TestStatus_Stuck: the exit status says whether a queue is shown.
func TestStatus_Stuck(t *testing.T) {
	srv := zktest.Run(t)
	for _, number := range []string{"0000000001", "0000000002"} {
		for _, path := range []string{"/q", "/q/lock-" + number} {
			if !srv.Exists(path) {
				_, err := srv.Create(path, []byte("web/1"), zktest.Persistent)
				require.NoError(t, err)
			}
		}
	}
	status, out, errs := run(t, srv.Addr(), "status", "-r", "--stuck", "1h", "/")
	require.Zero(t, status, errs)
	require.Empty(t, out)
	status, out, errs = run(t, srv.Addr(), "status", "-r", "--stuck", "1ns", "/")
	require.Equal(t, 1, status, errs)
	require.Contains(t, out, "stuck behind web/1")
}

// TestStatus_Forbidden: one node that may not be read hides no other queue.
func TestStatus_Forbidden(t *testing.T) {
	srv := zktest.Run(t)
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Create(t.Context(), "/closed", nil, 0, zk.DigestACL(zk.PermAll, "joe", "secret")...)
	require.NoError(t, err)
	_, err = srv.Create("/q", nil, zktest.Persistent)
	require.NoError(t, err)
	_, err = srv.Create("/q/lock-0000000001", []byte("web/1"), zktest.Persistent)
	require.NoError(t, err)
	status, out, errs := run(t, srv.Addr(), "status", "-r", "/")
	require.Zero(t, status, errs)
	require.Contains(t, out, "held by web/1")
	require.Contains(t, errs, "not shown")
	require.Contains(t, errs, "/closed")
	status, _, errs = run(t, srv.Addr(), "status", "/closed")
	require.Equal(t, exit.NoAccess, status)
	require.Contains(t, errs, "--auth-file")
}

// TestStatus_Watch: it goes on until it is stopped.
func TestStatus_Watch(t *testing.T) {
	srv := zktest.Run(t)
	z := command(t, srv.Addr(), "status", "--watch", "--interval", "0.01", "/q")
	z.Stdout = nil
	out, err := z.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, z.Start())
	lines := bufio.NewScanner(out)
	for views := 0; views < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "/q: free, as there is no such node") {
			views++
		}
	}
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.Equal(t, 143, z.status(t), z.err.String())
}
