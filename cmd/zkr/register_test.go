//go:build unix

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const ordersNode = "/services/orders"

// checked answers the health checks of a program and counts them.
type checked struct {
	*httptest.Server
	checks atomic.Int64
	status atomic.Int64
}

func newHealth(t *testing.T, status int) *checked {
	t.Helper()
	h := &checked{}
	h.status.Store(int64(status))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(h.status.Load()))
		h.checks.Add(1)
	}))
	t.Cleanup(h.Close)
	return h
}

// pass waits for a few more checks.
func (h *checked) pass(t *testing.T) {
	t.Helper()
	before := h.checks.Load()
	eventually(t, "five checks", func() bool { return h.checks.Load() >= before+5 })
}

// registering starts zkr register with a shell command line.
func registering(t *testing.T, srv *zktest.Server, line string, flags ...string) *zkr {
	t.Helper()
	args := append([]string{"register", "--address=10.0.0.7", "--port=8080", "--check-interval=0.02", "--drain=0", "-v"},
		flags...)
	z := command(t, srv.Addr(), append(args, "--shell", line, "orders")...)
	z.Env = append(z.Env, "OUT="+filepath.Join(t.TempDir(), "out"))
	require.NoError(t, z.Start())
	return z
}

func listed(srv *zktest.Server) bool { return len(srv.Children(ordersNode)) > 0 }

// TestRegister_ListedWhileItServes: a program that is slow to start, or whose check fails, is not listed. It is taken
// out before it is asked to stop.
func TestRegister_ListedWhileItServes(t *testing.T) {
	srv := zktest.Run(t)
	h := newHealth(t, http.StatusServiceUnavailable)
	z := registering(t, srv,
		`trap '"$ZKR" instances -o value orders >"$OUT"; echo told >>"$OUT"; exit 7' TERM; while :; do sleep 0.02; done`,
		"--check="+h.URL, "--meta=zone=a", "--codec=spring")
	h.pass(t)
	require.False(t, listed(srv), "it does not serve yet")
	h.status.Store(http.StatusNoContent)
	eventually(t, "listed", func() bool { return listed(srv) })
	n, _ := srv.Node(ordersNode + "/" + srv.Children(ordersNode)[0])
	i, err := discovery.Spring().Decode("orders", discovery.Node{Data: n.Data})
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7:8080", i.HostPort())
	require.Equal(t, "a", i.Metadata["zone"])
	h.status.Store(http.StatusInternalServerError)
	eventually(t, "taken out", func() bool { return !listed(srv) })
	h.pass(t)
	require.False(t, listed(srv), "it still fails")
	h.status.Store(http.StatusOK)
	eventually(t, "listed again", func() bool { return listed(srv) })

	require.Equal(t, 7, z.after(t, syscall.SIGTERM), z.err.String())
	require.False(t, listed(srv))
	for _, variable := range z.Env {
		if file, ok := strings.CutPrefix(variable, "OUT="); ok {
			told, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, "told\n", string(told), "no instance was there when the program was asked to stop")
		}
	}
}

// TestRegister_IgnoresTerm: the program is not listed while zkr waits for it, and is eventually killed.
func TestRegister_IgnoresTerm(t *testing.T) {
	srv := zktest.Run(t)
	h := newHealth(t, http.StatusOK)
	z := registering(t, srv, `trap '' TERM; echo up; while :; do sleep 0.02; done`, "--check="+h.URL, "--stop-timeout=0.5")
	eventually(t, "listed", func() bool { return listed(srv) && strings.Contains(z.out.String(), "up") })
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	eventually(t, "taken out", func() bool { return !listed(srv) })
	require.Equal(t, 128+int(syscall.SIGKILL), z.status(t), z.err.String())
	require.Contains(t, z.err.String(), "--stop-timeout has elapsed")
}

// TestRegister_SecondSignal: a second signal does not wait for the drain.
func TestRegister_SecondSignal(t *testing.T) {
	srv := zktest.Run(t)
	h := newHealth(t, http.StatusOK)
	z := registering(t, srv, `trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done`, "--check="+h.URL, "--drain=1h")
	eventually(t, "listed", func() bool { return listed(srv) && strings.Contains(z.out.String(), "up") })
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	eventually(t, "taken out", func() bool { return !listed(srv) })
	time.Sleep(signals.AsOne)
	require.Equal(t, 3, z.after(t, syscall.SIGTERM), z.err.String())
}

// TestRegister_SignalsAtOnce: timeout(1) signals zkr, and then zkr again with its group.
func TestRegister_SignalsAtOnce(t *testing.T) {
	srv := zktest.Run(t)
	h := newHealth(t, http.StatusOK)
	z := registering(t, srv, `trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done`, "--check="+h.URL, "--drain=2s")
	eventually(t, "listed", func() bool { return listed(srv) && strings.Contains(z.out.String(), "up") })
	began := time.Now()
	for _, one := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCONT} {
		require.NoError(t, z.Process.Signal(one)) // two of the same would arrive as one
	}
	require.Equal(t, 3, z.status(t), z.err.String())
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
}

// TestRegister_ProgramEnds: zkr exits with the program's status, takes it out, and leaves no process behind.
func TestRegister_ProgramEnds(t *testing.T) {
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "end")
	z := registering(t, srv, `sleep 300 & while ! test -e `+file+`; do sleep 0.02; done; exit 5`, "--check=none", "--id=a")
	eventually(t, "listed", func() bool { return srv.Exists(ordersNode + "/a") })
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, 5, z.status(t), z.err.String())
	require.False(t, listed(srv))
}

// TestRegister_SignalAfterTheProgram: while the servers are silent, zkr waits for them until a signal arrives. It used
// to ignore signals for a session timeout.
func TestRegister_SignalAfterTheProgram(t *testing.T) {
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "end")
	z := command(t, address(t, srv, "a"), "register", "--address=10.0.0.7", "--port=8080", "--check=none", "--id=a", "-v",
		"--shell", `while ! test -e `+file+`; do sleep 0.02; done; exit 5`, "orders")
	require.NoError(t, z.Start())
	eventually(t, "listed", func() bool { return srv.Exists(ordersNode + "/a") })
	srv.Stall(zktest.Label("a"), zktest.Both)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	eventually(t, "ended", func() bool { return strings.Contains(z.err.String(), "the program has ended") })
	require.Equal(t, 5, z.after(t, syscall.SIGTERM), z.err.String())
	require.Contains(t, z.err.String(), "no server has confirmed yet that the program was taken out")
	require.Contains(t, z.err.String(), "stopped by signal terminated")
}

// TestRegister_PassesSignals: a signal that does not request a stop reaches the program at once, and the program stays
// listed.
func TestRegister_PassesSignals(t *testing.T) {
	srv := zktest.Run(t)
	z := registering(t, srv, `trap 'echo reload' HUP; trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`,
		"--check=none")
	eventually(t, "listed", func() bool { return listed(srv) && strings.Contains(z.out.String(), "up") })
	require.NoError(t, z.Process.Signal(syscall.SIGHUP))
	eventually(t, "reloaded", func() bool { return strings.Contains(z.out.String(), "reload") })
	require.True(t, listed(srv))
	require.Zero(t, z.after(t, syscall.SIGTERM), z.err.String())
}

// TestRegister_IDIsTaken: the program runs, and is listed once the id is free.
func TestRegister_IDIsTaken(t *testing.T) {
	srv := zktest.Run(t)
	d, err := discovery.New(dial(t, srv), "/services")
	require.NoError(t, err)
	r, err := d.Register(t.Context(), discovery.Instance{Service: "orders", ID: "a", Address: "other", Port: 1})
	require.NoError(t, err)
	z := registering(t, srv, `trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`, "--check=none", "--id=a")
	eventually(t, "told", func() bool { return strings.Contains(z.err.String(), "taken by another session") })
	n, _ := srv.Node(ordersNode + "/a")
	require.Equal(t, r.State().Session, n.Stat.EphemeralOwner)
	require.NoError(t, r.Close(t.Context()))
	eventually(t, "listed", func() bool {
		n, ok := srv.Node(ordersNode + "/a")
		return ok && strings.Contains(string(n.Data), "10.0.0.7") && strings.Contains(z.out.String(), "up")
	})
	require.Zero(t, z.after(t, syscall.SIGTERM), z.err.String())
}

// TestRegister_Checks: each kind of check first fails and then passes.
func TestRegister_Checks(t *testing.T) {
	srv := zktest.Run(t)
	free := func() string { // a port without a listener
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return l.Addr().String()
	}
	listen := func(address string) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() }) // it only listened
	}
	file, address := filepath.Join(t.TempDir(), "ready"), free()
	for check, passes := range map[string]func(){
		"tcp://" + address:     func() { listen(address) },
		"exec:test -e " + file: func() { require.NoError(t, os.WriteFile(file, nil, 0o600)) },
	} {
		z := registering(t, srv, `trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`, "--check="+check)
		eventually(t, "the check fails", func() bool { return strings.Contains(z.err.String(), "the check failed") })
		require.False(t, listed(srv))
		passes()
		eventually(t, "listed", func() bool { return listed(srv) && strings.Contains(z.out.String(), "up") })
		require.Zero(t, z.after(t, syscall.SIGINT), z.err.String())
	}
}

func TestRegister_Usage(t *testing.T) {
	srv := zktest.Run(t)
	for want, args := range map[string][]string{
		"want --port":           {"orders", "--", "true"},
		"want one SERVICE":      {"--port=1", "--", "true"},
		"no program":            {"--port=1", "orders"},
		"--codec such":          {"--port=1", "--codec=such", "orders", "--", "true"},
		"--base":                {"--port=1", "--base=such", "orders", "--", "true"},
		"--meta zone":           {"--port=1", "--meta=zone", "orders", "--", "true"},
		"--signal HOPE":         {"--port=1", "--signal=HOPE", "orders", "--", "true"},
		"want tcp, tcp://":      {"--port=1", "--check=udp://a:1", "orders", "--", "true"},
		"--check-failures":      {"--port=1", "--check-failures=0", "orders", "--", "true"},
		`service "a/b"`:         {"--port=1", "a/b", "--", "true"},
		"port 70000":            {"--port=70000", "orders", "--", "true"},
		"only shard and status": {"--port=1", "--codec=finagle", "--meta=zone=a", "orders", "--", "true"},
	} {
		_, errs := ends(t, exit.Usage, srv.Addr(), append([]string{"register"}, args...)...)
		assert.Contains(t, errs, want)
	}
	ends(t, exit.NotFound, srv.Addr(), "register", "--port=1", "orders", "--", "no-such-program")
	require.False(t, listed(srv))
}

// TestInstances: the list as a table, as JSON, and as lines for scripts.
func TestInstances(t *testing.T) {
	srv := zktest.Run(t)
	d, err := discovery.New(dial(t, srv), "/services", discovery.WithCodec(discovery.Spring()))
	require.NoError(t, err)
	for _, i := range []discovery.Instance{
		{Service: "orders", ID: "a", Address: "10.0.0.7", Port: 8080, Metadata: map[string]string{"zone": "a"}},
		{Service: "orders", ID: "b", Address: "10.0.0.8", Port: 8080, Disabled: true},
	} {
		_, err := d.Register(t.Context(), i)
		require.NoError(t, err)
	}
	nodes(t, srv, "\x1b[31m", ordersNode+"/bad")

	out, _ := ends(t, 0, srv.Addr(), "instances", "--codec=spring", "orders")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^ADDRESS +STATE +ID +SINCE$`, lines[0])
	require.Regexp(t, `^10\.0\.0\.7:8080 +up +a +20`, lines[1])
	require.Regexp(t, `^10\.0\.0\.8:8080 +disabled +b +20`, lines[2])
	require.Regexp(t, `^- +error +decode /services/orders/bad: .* +20`, lines[3])

	_, out, _ = run(t, srv.Addr(), "instances", "--codec=spring", "-o", "value", "orders")
	require.Equal(t, "10.0.0.7:8080\n", out)
	_, out, _ = run(t, srv.Addr(), "instances", "--codec=spring", "-o", "json", "orders")
	require.Contains(t, out,
		`"id":"a","address":"10.0.0.7","port":8080,"state":"up","metadata":{"instance_status":"UP","zone":"a"}`)
	require.NotContains(t, out, "current")
	_, out, _ = run(t, srv.Addr(), "instances")
	require.Equal(t, "orders\n", out)
	out, _ = ends(t, 0, srv.Addr(), "instances", "-o", "value", "nothing")
	require.Empty(t, out)
	for _, args := range [][]string{{"a", "b"}, {"a/b"}, {""}, {"--watch"}, {"--codec=such", "orders"}} {
		ends(t, exit.Usage, srv.Addr(), append([]string{"instances"}, args...)...)
	}
}

// TestInstances_Watch: each change yields a list; a lost connection is reported in JSON.
func TestInstances_Watch(t *testing.T) {
	srv := zktest.Run(t)
	d, err := discovery.New(dial(t, srv), "/services")
	require.NoError(t, err)
	r, err := d.Register(t.Context(), discovery.Instance{Service: "orders", ID: "a", Address: "10.0.0.7", Port: 8080})
	require.NoError(t, err)
	servers := address(t, srv, "watching")
	lines := command(t, servers, "instances", "--watch", "-o", "value", "orders")
	texts := command(t, servers, "instances", "--watch", "-o", "json", "orders")
	for _, z := range []*zkr{lines, texts} {
		require.NoError(t, z.Start())
		eventually(t, "one", func() bool { return strings.Contains(z.out.String(), "10.0.0.7") })
	}
	srv.Refuse(zktest.Label("watching"))
	srv.Cut(zktest.Label("watching"))
	eventually(t, "outdated", func() bool { return strings.Contains(texts.out.String(), `"current":false`) })
	srv.Accept(zktest.Label("watching"))
	eventually(t, "current again", func() bool { return strings.Count(texts.out.String(), `"current":true`) >= 2 })
	require.NoError(t, r.Close(t.Context()))
	eventually(t, "none", func() bool { return strings.HasSuffix(lines.out.String(), "\n\n\n") })
	eventually(t, "none", func() bool { return strings.Contains(texts.out.String(), `"instances":[]`) })
	for _, z := range []*zkr{lines, texts} {
		require.Equal(t, 128+int(syscall.SIGTERM), z.after(t, syscall.SIGTERM), z.err.String())
	}
}
