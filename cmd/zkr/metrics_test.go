//go:build unix

package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestMetrics_OfAJob: each machine reports how its last run ended, and when the job last succeeded on any machine.
func TestMetrics_OfAJob(t *testing.T) {
	srv := zktest.Run(t)
	run1 := func(file, value, line string, want int) string {
		t.Helper()
		z := command(t, srv.Addr(), "lock", "--once", value, "/jobs/nightly", "--shell", line)
		z.Env = append(z.Env, "ZKR_METRICS_FILE="+file)
		require.NoError(t, z.Start())
		require.Equal(t, want, z.status(t), z.err.String())
		require.Empty(t, withoutLate(z.err.String()), "cron mails it")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	first, second := filepath.Join(t.TempDir(), "first.prom"), filepath.Join(t.TempDir(), "second.prom")
	text := run1(first, "22", "exit 3", 3)
	assert.Contains(t, text, `zkr_last_run_status{name="/jobs/nightly"} 3`)
	assert.Contains(t, text, `zkr_last_success_timestamp_seconds{name="/jobs/nightly"} 0`)
	assert.Contains(t, text, `zkr_last_run_duration_seconds{name="/jobs/nightly"}`)
	run1(second, "22", `test -z "$ZKR_METRICS_FILE"`, 0)
	text = run1(first, "22", "false", 0)
	assert.Contains(t, text, `zkr_last_run_status{name="/jobs/nightly"} 3`)
	assert.NotContains(t, text, `zkr_last_success_timestamp_seconds{name="/jobs/nightly"} 0`,
		"the other machine has done it")
}

// throughSocket returns a client that connects to a socket.
func throughSocket(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// TestMetrics_OfALeader: metrics name the election. A metrics address that is taken does not prevent zkr from leading.
func TestMetrics_OfALeader(t *testing.T) {
	srv := zktest.Run(t)
	socket := filepath.Join(t.TempDir(), "s")
	z := start(t, srv, "a", "elect", "--metrics-http", "unix:"+socket, "/app/leader", "--", "sleep", "300")
	z.until(t, "started")
	client := throughSocket(socket)
	status, text := ask(t, client, "/metrics")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `zkrecipes_holds{name="/app/leader",recipe="election"} 1`)
	assert.Contains(t, text, `zkr_last_run_start_timestamp_seconds{name="/app/leader"}`)
	answers(t, client, "/readyz", http.StatusOK, "")

	other := start(t, srv, "b", "elect", "--once", "--metrics-http", "unix:"+socket, "/other", "--", "true")
	assert.Equal(t, 0, other.status(t))
	assert.Contains(t, other.err.String(), "no metrics are served: cannot listen, see --metrics-http")
	assert.NotContains(t, other.err.String(), "--http")
	require.NoError(t, z.Process.Kill())
	z.status(t)
	next := start(t, srv, "c", "elect", "--metrics-http", "unix:"+socket, "/next", "--", "sleep", "300")
	next.until(t, "started")
	eventually(t, "the socket that a killed zkr has left is no obstacle", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		return err == nil && c.Close() == nil
	})
	assert.Equal(t, 143, next.after(t, syscall.SIGTERM))
	assert.NotContains(t, next.err.String(), "no metrics are served")
}

func TestMetrics_Usage(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.prom")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, flag := range []string{"--metrics-http=such", "--metrics-file=nightly.txt", "--metrics-file=" + pipe} {
		ends(t, exit.Usage, "127.0.0.1:1", "lock", flag, "/p", "--", "true")
	}
}

// TestMetrics_NamesAreShort: every line of the metrics contains a name, and the library accepts at most 100 bytes.
func TestMetrics_NamesAreShort(t *testing.T) {
	assert.Equal(t, "/p", metricsName("/p"))
	long := metricsName("/" + strings.Repeat("ä", 60) + "/nightly")
	assert.LessOrEqual(t, len(long), 100)
	assert.True(t, strings.HasPrefix(long, "…ä"), long)
	assert.True(t, strings.HasSuffix(long, "ä/nightly"), long)
}
