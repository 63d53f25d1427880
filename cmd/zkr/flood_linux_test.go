package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// flooded is a zkr serve with few descriptors whose port is kept busy by strangers.
type flooded struct {
	*zkr
	port   string
	client *http.Client // for the port, with a connection per request
}

func flood(t *testing.T, srv *zktest.Server) *flooded {
	t.Helper()
	args := []string{"serve", "--elect", "/app/leader", "--http", "127.0.0.1:0"}
	z := command(t, address(t, srv, "sidecar"), args...)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	z.Args = append([]string{shell, "-c", `ulimit -n 64; exec "$@"`, "sh", os.Args[0]}, args...)
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
	f := flood(t, srv)
	f.stay(t, 100, "/healthz")
	f.stay(t, 30, "/ui/events")
	f.stay(t, 30, "/events")
	f.outlives(t, srv)
	require.Contains(t, f.err.String(), "too many HTTP connections")
}
