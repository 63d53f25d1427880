//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// sidecarClient runs zkr serve and returns a client of its socket.
func sidecarClient(t *testing.T, servers string, args ...string) (*http.Client, *zkr) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	z := begin(t, servers, append([]string{"serve", "--http", "unix:" + socket}, args...)...)
	eventually(t, "it listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		return err == nil && c.Close() == nil
	})
	return throughSocket(socket), z
}

func TestServe_WithoutAPage(t *testing.T) {
	t.Parallel()
	client, _ := sidecarClient(t, zktest.Run(t).Addr(), "--ui-root=")
	status, body := ask(t, client, "/")
	require.Equal(t, http.StatusNotFound, status, body)
}

// ask returns the status and body of an answer.
func ask(t *testing.T, client *http.Client, path string) (int, string) {
	t.Helper()
	answer, err := client.Get("http://zkr" + path)
	require.NoError(t, err)
	return read(t, answer)
}

// answers requires an answer with a status and a text. A sidecar gives the servers half a second to answer, which is not
// always enough on a busy machine, so it is asked again if they did not answer in time.
func answers(t *testing.T, client *http.Client, path string, status int, text string) {
	t.Helper()
	var got int
	var said string
	eventually(t, "the servers answer for "+path, func() bool {
		got, said = ask(t, client, path)
		return !strings.Contains(said, "no answer within")
	})
	require.Equal(t, status, got, path)
	require.Contains(t, said, text, path)
}

// read returns the status and body of an answer.
func read(t *testing.T, answer *http.Response) (int, string) {
	t.Helper()
	defer answer.Body.Close() //nolint:errcheck // read-only
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// nextEvent reads events until one contains all words.
func nextEvent(t *testing.T, events *bufio.Reader, words ...string) string {
	t.Helper()
	for {
		line, err := events.ReadString('\n')
		require.NoError(t, err)
		data, is := strings.CutPrefix(line, "data: ")
		all := true
		for _, word := range words {
			all = all && strings.Contains(data, word)
		}
		if is && all {
			return data
		}
	}
}

// eventsOf opens a stream of events.
func eventsOf(t *testing.T, client *http.Client, path string) *bufio.Reader {
	t.Helper()
	answer, err := client.Get("http://zkr" + path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	t.Cleanup(func() { _ = answer.Body.Close() })
	return bufio.NewReaderSize(answer.Body, 1<<20)
}

// becomesLeader waits until the candidate of zkr serve leads.
func becomesLeader(t *testing.T, client *http.Client) {
	t.Helper()
	eventually(t, "it leads", func() bool { status, _ := ask(t, client, "/self"); return status == http.StatusOK })
}

// TestServe: a candidate leads, reports that in every way, and resigns when it is stopped.
func TestServe(t *testing.T) {
	srv := zktest.Run(t)
	client, z := sidecarClient(t, srv.Addr(), "--elect", "/app/leader", "--id", "pod-1")
	becomesLeader(t, client)
	for path, want := range map[string]string{
		"/": `{"name":"pod-1"}`, "/leader": `"leader":"pod-1"`, "/healthz": "alive", "/readyz": `"state":"connected"`,
		"/metrics": `zkrecipes_holds{name="/app/leader",recipe="election"} 1`, "/ui/": "<title>zkr</title>",
		"/ui/app.js": "import", "/ui/style.css": "prefers-color-scheme",
	} {
		answers(t, client, path, http.StatusOK, want)
	}
	nextEvent(t, eventsOf(t, client, "/events"), `"known":true`, `"leader":"pod-1"`)
	shown := eventsOf(t, client, "/ui/events")
	nextEvent(t, shown, `/app/leader`, `"id":"pod-1"`) // later events repeat only whether the page is current
	nextEvent(t, shown, `"current":true`)
	nextEvent(t, shown, `"own":{"node":"/app/leader/`)
	require.Equal(t, 143, z.after(t, syscall.SIGTERM), z.err.String())
	eventually(t, "it has left", func() bool { return len(srv.Children("/app/leader")) == 0 })
}

// TestServe_Observe: an observer is not a candidate, reports changes, and names no leader while it is cut off.
func TestServe_Observe(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	client, _ := sidecarClient(t, address(t, srv, "sidecar"), "--observe", "/app/leader")
	answers(t, client, "/leader", http.StatusNotFound, "")
	answers(t, client, "/", http.StatusServiceUnavailable, "no candidate")
	stream, shown := eventsOf(t, client, "/events"), eventsOf(t, client, "/ui/events")
	nextEvent(t, shown, `"current":true`)

	term := leading(t, srv, "/app/leader", "web1/42")
	began := time.Now()
	nextEvent(t, stream, `"leader":"web1/42"`, `"token":"`+term.Token().String()+`"`)
	var m pageMessage
	require.NoError(t, json.Unmarshal([]byte(nextEvent(t, shown, "web1/42")), &m))
	t.Logf("on the page after %v", time.Since(began).Round(time.Millisecond))
	require.Len(t, m.Changed, 1)

	srv.Refuse(zktest.Label("sidecar"))
	srv.Cut(zktest.Label("sidecar"))
	nextEvent(t, stream, `"known":false`)
	nextEvent(t, shown, `"current":false`)
	for _, path := range []string{"/", "/leader", "/readyz", "/self"} {
		status, text := ask(t, client, path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.NotContains(t, text, "web1")
	}
	status, _ := ask(t, client, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, term.Release(t.Context()))
	srv.Accept(zktest.Label("sidecar"))
	nextEvent(t, shown, `"gone":["/app/leader"]`, `"current":true`)
}

// TestServe_Forbidden: an unreadable node hides nothing else, and the page reports that it is not shown.
func TestServe_Forbidden(t *testing.T) {
	srv := zktest.Run(t)
	c := dial(t, srv)
	for _, path := range []string{"/open", "/half"} {
		locked(t, srv, path, "web1/42")
	}
	secret := zk.DigestACL(zk.PermAll, "joe", "secret")
	_, err := c.Create(t.Context(), "/closed", nil, 0, secret...)
	require.NoError(t, err)
	_, err = c.Create(t.Context(), "/half/_c_0a0b0c0d-0000-0000-0000-000000000000-lock-", nil,
		zk.FlagEphemeral|zk.FlagSequence, secret...)
	require.NoError(t, err)

	client, _ := sidecarClient(t, srv.Addr(), "--ui-root", "/")
	event := ""
	eventually(t, "the page is complete", func() bool {
		answer, err := client.Get("http://zkr/ui/events")
		require.NoError(t, err)
		defer answer.Body.Close() //nolint:errcheck // read-only
		// The first event; the others contain only what has changed.
		event = nextEvent(t, bufio.NewReader(answer.Body))
		return strings.Contains(event, `"current":true`)
	})
	require.Contains(t, event, "web1/42")
	require.Contains(t, event, `"hidden":"2 nodes are not shown, such as /closed`)
	require.Contains(t, event, `"path":"/open"`)
	require.NotContains(t, event, `"path":"/half"`)
	client, _ = sidecarClient(t, srv.Addr(), "--ui-root", "/half")
	nextEvent(t, eventsOf(t, client, "/ui/events"), `"current":true`, `"hidden":"1 node is not shown, /half/_c_`)
	client, _ = sidecarClient(t, srv.Addr(), "--ui-root", "/closed")
	nextEvent(t, eventsOf(t, client, "/ui/events"), `"current":false`, `"error":"`,
		`not authorized: the ACL of /closed does not grant read: see --auth-file`)
}

func TestServe_Usage(t *testing.T) {
	srv := zktest.Run(t)
	for _, args := range [][]string{
		{"--elect", "/a", "--observe", "/b"},
		{"--elect", "a"},
		{"--layout", "such"},
		{"--ui-root", "a"},
		{"such"},
		{"--http", "such"},
		{"--http", "127.0.0.1:http-such"},
		{"--http", "unix:"},
		{"--http="},
		{"--history", "file", "--ui-root="},
		{"--allow-host", "zkr.example:4040"},
		{"--allow-host", "http://zkr.example"},
	} {
		ends(t, exit.Usage, srv.Addr(), append([]string{"serve"}, args...)...)
	}
}

// TestServe_Resign: the leader gives way to the next candidate when a request arrives on its socket.
func TestServe_Resign(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	client, z := sidecarClient(t, srv.Addr(), "--elect", "/app/leader", "--id", "pod-1", "--http", "127.0.0.1:0")
	resign := func() (int, string) {
		answer, err := client.Post("http://zkr/resign", "", nil)
		require.NoError(t, err)
		return read(t, answer)
	}
	becomesLeader(t, client)
	_, self := ask(t, client, "/self")
	e, err := election.New(dial(t, srv, conn.WithIdentity("pod-2")), "/app/leader")
	require.NoError(t, err)
	elected := make(chan *election.Term, 1)
	go func() {
		term, err := e.Campaign(t.Context())
		if err == nil {
			elected <- term
		}
	}()
	eventually(t, "the next candidate waits", func() bool { return len(srv.Children("/app/leader")) == 2 })
	status, text := resign()
	require.Equal(t, http.StatusOK, status, text)
	var resigned struct{ Resigned int64 }
	require.NoError(t, json.Unmarshal([]byte(text), &resigned))
	require.Contains(t, self, fmt.Sprintf(`"token":%d,`, resigned.Resigned))
	term := <-elected
	status, _ = ask(t, client, "/self")
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, text = resign()
	require.Equal(t, http.StatusConflict, status, text)
	eventually(t, "it stands again", func() bool { return len(srv.Children("/app/leader")) == 2 })
	require.NoError(t, term.Release(t.Context()))
	becomesLeader(t, client)
	require.Equal(t, 143, z.after(t, syscall.SIGTERM), z.err.String())
}
