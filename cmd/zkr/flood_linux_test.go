package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// flooded is a zkr serve with few descriptors whose port is kept busy by strangers.
type flooded struct {
	*zkr
	port   string
	client *http.Client // for the port, with a connection per request
}

func flood(t *testing.T, srv *zktest.Server, descriptors int, args ...string) *flooded {
	t.Helper()
	args = append([]string{"serve", "--elect", "/app/leader", "--http", "127.0.0.1:0", "--session-timeout", "6s"}, args...)
	z := command(t, address(t, srv, "sidecar"), args...)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	z.Args = append([]string{shell, "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, descriptors), "sh", os.Args[0]}, args...)
	z.Path = shell
	require.NoError(t, z.Start())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	f := &flooded{z, z.listensAt(t), client}
	eventually(t, "it leads", func() bool { status, _ := f.ask(t, "/self"); return status == http.StatusOK })
	return f
}

// ask returns the status and body of an answer, with status 0 if there was none.
func (f *flooded) ask(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := f.client.Get("http://" + f.port + path)
	if err != nil {
		return 0, err.Error()
	}
	return read(t, answer)
}

// stay opens connections that each send one request. It reads at most the first line of each answer, which is missing
// if the peer hangs up.
func (f *flooded) stay(t *testing.T, n int, path string) {
	t.Helper()
	for range n {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) // the peer may have hung up
		_, _ = bufio.NewReaderSize(c, 16).ReadSlice('\n')
	}
}

// outlives resets the connection to ZooKeeper and requires that the term survives.
func (f *flooded) outlives(t *testing.T, srv *zktest.Server) {
	t.Helper()
	token := regexp.MustCompile(`"token":(\d+)`)
	_, before := f.ask(t, "/self")
	require.Regexp(t, token, before)
	srv.Cut(zktest.Label("sidecar"))
	eventually(t, "it has connected again",
		func() bool { status, _ := f.ask(t, "/readyz"); return status == http.StatusOK })
	status, after := f.ask(t, "/self")
	require.Equal(t, http.StatusOK, status, f.err.String())
	require.Equal(t, token.FindString(before), token.FindString(after))
}

// TestServe_StrangersDoNotTakeTheLeadershipAway: idle connections once used up all descriptors, so that zkr could not
// reconnect.
func TestServe_StrangersDoNotTakeTheLeadershipAway(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	f := flood(t, srv, 64)
	f.stay(t, 100, "/healthz")
	f.stay(t, 30, "/ui/events")
	f.stay(t, 30, "/events")
	f.outlives(t, srv)
	require.Contains(t, f.err.String(), "too many HTTP connections")
}

// TestServe_AFloodCostsLittle: many clients that never read share what is sent to them, and are dropped.
func TestServe_AFloodCostsLittle(t *testing.T) {
	need.Asked(t, "a quiet machine")
	srv := zktest.Run(t)
	c := dial(t, srv, conn.WithIdentity("web1/42"))
	_, err := c.Create(t.Context(), "/jobs", nil, 0)
	require.NoError(t, err)
	for i := range 3000 {
		path := fmt.Sprintf("/jobs/customer-%04d", i)
		_, err := c.Create(t.Context(), path, nil, 0)
		require.NoError(t, err)
		_, err = c.Create(t.Context(), path+"/_c_2f1b9a3e-0c1d-4a7b-8e55-3d1f4c9a7b60-lock-", []byte("web1/42"),
			zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
	}
	f := flood(t, srv, 256)
	events := eventsAt(t, f.port)
	require.Contains(t, nextEvent(t, events, `"current":true`, "/jobs/customer-2999"), "/jobs/customer-0000")
	f.stay(t, 300, "/healthz")
	f.stay(t, 300, "/ui/events")
	var slowest time.Duration
	for range 3 {
		f.outlives(t, srv)
		began := time.Now()
		status, _ := f.ask(t, "/healthz")
		require.Equal(t, http.StatusOK, status)
		slowest = max(slowest, time.Since(began))
	}
	require.Less(t, slowest, time.Second)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.Process.Pid))
	require.NoError(t, err)
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, peak)
	kilobytes, err := strconv.Atoi(string(peak[1]))
	require.NoError(t, err)
	t.Logf("at most %d MB were resident, and /healthz took %v", kilobytes>>10, slowest.Round(100*time.Microsecond))
	require.LessOrEqual(t, kilobytes>>10, 120)
}

// eventsAt opens the event stream of the page at a port.
func eventsAt(t *testing.T, port string) *bufio.Reader {
	t.Helper()
	answer, err := http.Get("http://" + port + "/ui/events") //nolint:noctx // ends with the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return bufio.NewReaderSize(io.Reader(answer.Body), 1<<20)
}
