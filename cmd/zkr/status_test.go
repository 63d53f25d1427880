//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestStatus: while a program runs under a lock, status shows its holder, for people and for scripts.
func TestStatus(t *testing.T) {
	srv := zktest.Run(t)
	out, _ := ends(t, 0, srv.Addr(), "lock", "--id", "web1/42", "/jobs/nightly", "--shell",
		"$ZKR status /jobs/nightly; $ZKR status -o json /jobs/nightly; $ZKR status -o value /jobs/nightly /jobs")
	require.Regexp(t, `(?s)^/jobs/nightly \(mutex\): held by web1/42\n  PLACE  MODE   ID       HOST\s+PROCESS  `+
		`AGE\s+SINCE\s+TOKEN\s+SESSION\n`+
		`  holds  mutex  web1/42  \S+\s+\d+\s+\S+\s+\S+Z\s+\d+\s+0x[0-9a-f]+\n(\{.*\})\n/jobs/nightly\theld\n/jobs\tfree\n$`,
		out)
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

// TestStatus_Recursive: each queue has a line that ends with its problems. Scripts get the path and the verdict.
func TestStatus_Recursive(t *testing.T) {
	srv := zktest.Run(t)
	nodes(t, srv, "web1/7", "/a", "/a/lock-0000000001", "/a/lock-0000000002")
	out, _ := ends(t, 0, srv.Addr(), "sem", "-n=2", "--id=gpu", "/sem", "--shell",
		`$ZKR elect --once --id=web3 /b/leader --shell '$ZKR status -r /; $ZKR status -r -o value /'`)
	require.Regexp(t, `^PATH\s+KIND\s+VERDICT\s+HOLDER\s+AGE\s+WAITING\s+LONGEST\s+FINDINGS\n`+
		`/a\s+mutex\s+ghost\s+web1/7\s+\S+s\s+1\s+\S+s\s+ghost: lock-0000000001 is not ephemeral.*, and 1 more\n`+
		`/b/leader\s+election\s+held\s+web3\s+\S+s\s+0\s+-\s+-\n`+
		`/sem\s+semaphore\s+held\s+gpu\s+\S+s\s+0\s+-\s+-\n`+
		`/a\tghost\n/b/leader\theld\n/sem\theld\n$`, out)
}

// TestStatus_ComparesClocks: output that shows ages queries the time of the servers. For a script that polls, status
// only reads.
func TestStatus_ComparesClocks(t *testing.T) {
	srv := zktest.Run(t)
	writes := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: -1}, zktest.Proceed())
	for i, flags := range [][]string{{}, {"-r"}, {"-o=json", "--stuck=1h"}} {
		ends(t, 0, srv.Addr(), append([]string{"status", "/"}, flags...)...)
		require.Equal(t, i+1, writes.Hits(), "%q", flags)
	}
	for _, flags := range [][]string{{"-o=json"}, {"-r", "-o=value"}} {
		ends(t, 0, srv.Addr(), append([]string{"status", "/"}, flags...)...)
		require.Equal(t, 3, writes.Hits(), "%q", flags)
	}
	require.Equal(t, []string{"zookeeper"}, srv.Children("/"))
}

// TestStatus_AClockThatIsBehind: the ages of contenders and shards follow the clock of the servers.
func TestStatus_AClockThatIsBehind(t *testing.T) {
	srv := zktest.Run(t)
	nodes(t, srv, "", "/s", "/s/members", "/s/election", "/s/own", "/s/own/p0", "/q")
	nodes(t, srv, `{"owners":{"w1":["p0"]}}`, "/s/plan")
	nodes(t, srv, "web/1", "/q/lock-0000000001", "/s/own/p0/lock-0000000001")
	client := dial(t, srv)
	since := func(ahead time.Duration) []time.Time {
		view, err := look(t.Context(), client, []string{"/"}, statusFlags{recursive: true, ahead: ahead})
		require.NoError(t, err)
		return []time.Time{view.Queues[0].Holders[0].Since, view.Shards[0].Shards[0].Since}
	}
	for i, right := range since(0) {
		require.Equal(t, right.Add(20*time.Minute), since(-20 * time.Minute)[i])
	}
}

// TestStatus_NothingBelow: people see that there was an answer, even in a pipe. Scripts and cron get no output.
func TestStatus_NothingBelow(t *testing.T) {
	srv := zktest.Run(t)
	x := inTerminal(t, command(t, srv.Addr(), "status", "-r", "/jobs"))
	x.shows(t, "no contenders at or below /jobs")
	assert.Zero(t, x.status(t))
	x = inTerminal(t, command(t, srv.Addr(), "status", "-r", "--stuck=10m", "/jobs"))
	x.shows(t, "zkr: no queue at or below /jobs is stuck")
	assert.Zero(t, x.status(t))
	out, errs := ends(t, 0, srv.Addr(), "status", "-r", "/jobs")
	assert.Equal(t, "no contenders at or below /jobs\n", out+errs)
	for _, flag := range []string{"-o=value", "--stuck=10m"} {
		out, errs := ends(t, 0, srv.Addr(), "status", "-r", flag, "/jobs")
		assert.Empty(t, out+errs)
	}
}

// TestStatus_Stuck: the exit status reports whether a queue is shown.
func TestStatus_Stuck(t *testing.T) {
	srv := zktest.Run(t)
	nodes(t, srv, "web/1", "/q", "/q/lock-0000000001", "/q/lock-0000000002")
	out, _ := ends(t, 0, srv.Addr(), "status", "-r", "--stuck", "1h", "/")
	require.Empty(t, out)
	out, _ = ends(t, 1, srv.Addr(), "status", "-r", "--stuck", "1ns", "/")
	require.Regexp(t, `/q +mutex +ghost +web/1`, out)
	_, out, _ = run(t, srv.Addr(), "status", "--stuck", "1ns", "/q")
	require.Contains(t, out, "stuck behind web/1")
}

// TestStatus_Forbidden: an unreadable node hides no other queue.
func TestStatus_Forbidden(t *testing.T) {
	srv := zktest.Run(t)
	_, err := dial(t, srv).Create(t.Context(), "/closed", nil, 0, zk.DigestACL(zk.PermAll, "joe", "secret")...)
	require.NoError(t, err)
	nodes(t, srv, "web/1", "/q", "/q/lock-0000000001")
	out, errs := ends(t, 0, srv.Addr(), "status", "-r", "/")
	require.Contains(t, out, "/q    mutex  ghost    web/1")
	require.Contains(t, errs, "not shown")
	require.Contains(t, errs, "/closed")
	_, errs = ends(t, exit.NoAccess, srv.Addr(), "status", "/closed")
	require.Contains(t, errs, "--auth-file")
}

// TestStatus_Watch: status runs until it is stopped.
func TestStatus_Watch(t *testing.T) {
	srv := zktest.Run(t)
	z := command(t, srv.Addr(), "status", "--watch", "--interval", "0.01", "/q")
	z.Stdout = nil
	out, err := z.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, z.Start())
	lines := bufio.NewScanner(out)
	for views := 0; views < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "/q: free: there is no such node") {
			views++
		}
	}
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.Equal(t, 143, z.status(t), z.err.String())
}

// TestStatus_AsOf: a view is as recent as the first answer of the servers, not as the request.
func TestStatus_AsOf(t *testing.T) {
	srv := zktest.Run(t)
	answer := make(chan struct{})
	asked := srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: "^/q$"}, zktest.DelayUntil(answer))
	z := begin(t, srv.Addr(), "status", "-o=json", "/q")
	eventually(t, "asked", func() bool { return asked.Hits() > 0 })
	answered := time.Now()
	close(answer)
	require.Zero(t, z.status(t), z.err.String())
	var view snapshot
	require.NoError(t, json.Unmarshal([]byte(z.out.String()), &view))
	require.False(t, view.AsOf.Before(answered.Round(0)), "%v before %v", view.AsOf, answered)
}

// TestStatus_WatchWithoutAConnection reports that the view may be old, and refreshes it afterwards.
func TestStatus_WatchWithoutAConnection(t *testing.T) {
	srv := zktest.Run(t)
	z := begin(t, address(t, srv, "watching"), "status", "--watch", "--interval=0.01", "-o=value", "/q")
	eventually(t, "a view", func() bool { return strings.Contains(z.out.String(), "free") })
	srv.Refuse(zktest.Label("watching"))
	srv.Cut(zktest.Label("watching"))
	eventually(t, "told", func() bool { return strings.Contains(z.err.String(), "the last view may be old") })
	nodes(t, srv, "web/1", "/q", "/q/lock-0000000001")
	srv.Accept(zktest.Label("watching"))
	eventually(t, "a new view", func() bool { return strings.HasSuffix(z.out.String(), "ghost\n") })
	require.Equal(t, 143, z.after(t, syscall.SIGTERM), z.err.String())
}
