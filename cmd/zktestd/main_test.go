package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// program is a zktestd in the test process.
type program struct {
	t       *testing.T
	addr    string
	url     string
	in      *io.PipeWriter
	out     *bufio.Scanner
	errs    *bytes.Buffer // read only after the program has ended
	signals chan os.Signal
	status  chan int
}

func launch(t *testing.T, args ...string) *program {
	t.Helper()
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	p := &program{
		t: t, in: commands, out: bufio.NewScanner(answers), errs: &bytes.Buffer{},
		signals: make(chan os.Signal, 1), status: make(chan int, 1),
	}
	go func() {
		p.status <- run(args, in, out, p.errs, p.signals)
		_ = out.Close()
	}()
	require.True(t, p.out.Scan())
	fields := strings.Fields(p.out.Text())
	require.Equal(t, "ready", fields[0])
	p.addr = fields[1]
	if len(fields) > 2 {
		p.url = fields[2]
	}
	t.Cleanup(func() { _ = commands.Close() })
	return p
}

// say sends a line and returns the lines of the answer, the last of which is "ok" or an error.
func (p *program) say(line string) []string {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	var lines []string
	for p.out.Scan() {
		lines = append(lines, p.out.Text())
		if p.out.Text() == "ok" || strings.HasPrefix(p.out.Text(), "error: ") {
			return lines
		}
	}
	require.Fail(p.t, "no answer", line)
	return nil
}

// do sends a line that must succeed, and returns the JSON of the answer.
func (p *program) do(line string) []map[string]any {
	p.t.Helper()
	lines := p.say(line)
	last := len(lines) - 1
	require.Equal(p.t, "ok", lines[last], line)
	var values []map[string]any
	for _, l := range lines[:last] {
		var v map[string]any
		require.NoError(p.t, json.Unmarshal([]byte(l), &v), l)
		values = append(values, v)
	}
	return values
}

func (p *program) fails(line, why string) {
	p.t.Helper()
	lines := p.say(line)
	require.Len(p.t, lines, 1)
	assert.Contains(p.t, lines[0], why)
}

// end closes standard input and returns the exit status.
func (p *program) end() int {
	p.t.Helper()
	require.NoError(p.t, p.in.Close())
	return p.wait()
}

func (p *program) wait() int {
	p.t.Helper()
	select {
	case status := <-p.status:
		return status
	case <-time.After(time.Minute):
		require.Fail(p.t, "it does not end")
		return -1
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func dial(t *testing.T, addr string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 40*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	expect(t, events, zk.StateHasSession)
	return c, events
}

func expect(t *testing.T, events <-chan zk.Event, want zk.State) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == want {
				return
			}
		case <-late:
			require.Fail(t, "no "+want.String())
		}
	}
}

var open = zk.WorldACL(zk.PermAll)

func TestRun_EndsWithItsInput(t *testing.T) {
	assert.Zero(t, launch(t).end())
}

func TestRun_EndsAtASignal(t *testing.T) {
	p := launch(t, "-detached")
	require.NoError(t, p.in.Close())
	p.signals <- syscall.SIGTERM
	assert.Zero(t, p.wait())
}

func TestRun_EndsWhenTold(t *testing.T) {
	p := launch(t)
	p.do("quit")
	assert.Zero(t, p.wait())
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"extra", 2, "commands go to standard input"},
		{"-bogus", 2, "not defined: -bogus: zktestd -h lists the flags"},
		{"-fronts x", 2, "parse error: zktestd -h lists the flags"},
		{"-release 2", 1, "want 3.8, 3.9 or a number"},
		{"-tick 1us", 1, "tick time 1µs: want 1ms to"},
		{"-addr nowhere:x", 1, "listen"},
		{"-http nowhere:x", 1, "listen"},
		{"-sasl joe", 1, "want user:password"},
		{"-max-buffer -1", 1, "-1 bytes: want 1 to"},
		{"-addr=", 2, "flag -addr is empty: want host:port"},
		{"-require-auth x509", 2, "flag -require-auth x509: want digest, sasl with -sasl, x509 with -tls-client-ca"},
		{"-require-auth digest,sasl", 2, "flag -require-auth digest,sasl: want"},
		{"-require-auth magic", 2, "flag -require-auth magic: want"},
		{"-fronts 2", 2, "another odd number"},
		{"-tls-cert a", 2, "use both or neither"},
		{"-tls-cert a -tls-key b", 1, "open a"},
		{"-tls-client-ca a", 2, "needs -tls-cert and -tls-key"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, c.status, run(strings.Fields(c.args), strings.NewReader(""), &out, &errs, nil), c.args)
		assert.Contains(t, errs.String(), c.want, c.args)
		assert.Empty(t, out.String(), c.args)
	}
}

func TestRun_Help_StartsWithAnExample(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Zero(t, run([]string{"-h"}, strings.NewReader(""), &out, &errs, nil))
	assert.Contains(t, out.String(), "$ zktestd\n")
	assert.Contains(t, out.String(), "-tick")
	assert.Empty(t, errs.String())
}

func TestHelp_ListsAllCommands(t *testing.T) {
	list := strings.Join(launch(t).say("help"), "\n")
	for _, c := range commands {
		assert.Contains(t, list, "  "+c.name+" "+c.args)
	}
}

func TestBadLines_AreExplained(t *testing.T) {
	p := launch(t)
	for line, why := range map[string]string{
		"bogus":                    `unknown command "bogus": help lists all commands`,
		"expire":                   "0 arguments: want expire WHO",
		"freeze now":               "1 arguments: want freeze",
		"expire 0x5":               "no session 0x5: the command sessions lists all sessions",
		"cut a":                    `no listener has the label "a"`,
		"stop a":                   `no listener has the label "a"`,
		"start a":                  `no listener has the label "a"`,
		"heal a":                   `no listener has the label "a"`,
		"refuse a":                 `no listener has the label "a"`,
		"accept a":                 `no listener has the label "a"`,
		"refuse 0x5":               `no listener has the label "0x5"`,
		"lose-watch /a b":          `no listener has the label "b"`,
		"stall all up":             "want to-server, from-server or both",
		"stop 1":                   "no front 1: with -fronts 3 there are",
		"lag a":                    "no front a",
		"listen all":               "want a name",
		"listen both":              "want a name",
		"get \"/a\rb\x1b\u2028\"":  `error: /a\rb\x1b\u2028: no node (-101)`,
		"listen a nowhere:x":       "listen",
		"drop-reply bogus":         "want one of closeSession",
		"drop-reply create create": "not part of a RULE",
		"drop-reply path=(":        `path "(": error parsing regexp`,
		"drop-reply times=x":       "want a number from 1, or all",
		"drop-reply times=0":       "want a number from 1, or all",
		"drop-reply skip=-1":       "want 0 or more",
		"fail bogus":               "want a number below 0, or one of",
		"latency -1s":              "want one such as 200ms",
		"delay soon":               "want one such as 200ms",
		"await 3":                  "no rule 3: the command rules lists all rules",
		"remove x":                 "no rule x",
		"event gone /a":            "want created, deleted, changed or children",
		"sequence /a many":         "want a 32-bit number",
		"sequence /a 1":            "/a: no node (-101)",
		"zxid x":                   "want one such as 12 or 0xc",
		"create /a/b":              "/a/b: no node (-101)",
		"create /a x ephemeral":    "want persistent, sequential or container",
		"set /a x":                 "/a: no node (-101)",
		"delete /a":                "/a: no node (-101)",
		"delete-all /a":            "/a: no node (-101)",
		"get /a":                   "/a: no node (-101)",
		"tree /a":                  "/a: no node (-101)",
		"history x":                "want a number of transactions",
		`set /a "x`:                "bad quotes",
	} {
		p.fails(line, why)
	}
	p.do("") // an empty line is ignored
}

func TestLongLine_IsExplained(t *testing.T) {
	var out strings.Builder
	assert.True(t, new(daemon).converse(strings.NewReader(strings.Repeat("x", longestLine+1)), &out))
	assert.Equal(t, "error: a command exceeds 8388608 bytes, and no other command can follow it\n", out.String())
}

func TestNodes(t *testing.T) {
	p := launch(t)
	p.do(`create /a "x y"`)
	assert.Equal(t, "/a/n-0000000000", p.do("create /a/n- 1 sequential")[0]["path"])
	p.do(`create /a/box "" container`)
	assert.Equal(t, "x y", p.do("get /a")[0]["data"])
	p.do("set /a \u00a0x\u3000") // no blanks of this language, so clients need not quote them
	assert.Equal(t, "\u00a0x\u3000", p.do("get /a")[0]["data"])
	p.do(`set /a "\xff"`)
	assert.Equal(t, "/w==", p.do("get /a")[0]["base64"])
	assert.Len(t, p.do("tree /a"), 3)
	p.do("delete /a/box")
	p.do("sequence /a 7")
	assert.Equal(t, "/a/n-0000000007", p.do(`create /a/n- "" sequential`)[0]["path"])
	p.do("delete-all /a")
	assert.Len(t, p.do("tree"), 1)
	assert.Equal(t, "delete", p.do("history 1")[0]["op"])
	p.do("delete-all /")
	assert.Equal(t, "0x100", p.do("zxid 0x100")[0]["zxid"])
}

func TestStop_RefusesAndKeepsDataAndSessions(t *testing.T) {
	t.Parallel()
	p := launch(t)
	c, events := dial(t, p.addr)
	session := c.SessionID()
	_, err := c.Create("/e", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)
	p.do("stop")
	expect(t, events, zk.StateDisconnected)
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", p.addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, false, p.do("addresses")[0]["listening"])
	p.do("stop") // a repetition is a no-op
	p.do("start")
	expect(t, events, zk.StateHasSession)
	assert.Equal(t, session, c.SessionID())
	assert.NotEmpty(t, p.do("get /e")[0]["owner"])
	p.do("restart")
	expect(t, events, zk.StateHasSession)
	assert.Equal(t, session, c.SessionID())
}

func TestListen_LabelsItsClients(t *testing.T) {
	t.Parallel()
	p := launch(t)
	addr, ok := p.do("listen a")[0]["address"].(string)
	require.True(t, ok)
	p.fails("listen a", "label a is taken")
	a, events := dial(t, addr)
	b, _ := dial(t, p.addr)
	_, err := a.Create("/a", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)

	p.do("stop a")
	expect(t, events, zk.StateDisconnected)
	_, _, err = b.Get("/a")
	require.NoError(t, err, "b is not concerned, and the session of a lives")
	p.do("start a")
	expect(t, events, zk.StateHasSession)

	assert.Len(t, p.do("expire a"), 1)
	expect(t, events, zk.StateExpired)
	_, _, err = b.Get("/a")
	require.ErrorIs(t, err, zk.ErrNoNode)
	p.do("refuse a")
	p.do("cut a")
	p.do("accept a")
}

func TestExpire_BySession(t *testing.T) {
	t.Parallel()
	p := launch(t)
	a, events := dial(t, p.addr)
	_, _ = dial(t, p.addr)
	assert.Len(t, p.do("sessions"), 2)
	p.do(fmt.Sprintf("expire %d", a.SessionID()))
	expect(t, events, zk.StateExpired)
}

func TestRules(t *testing.T) {
	t.Parallel()
	p := launch(t)
	c, events := dial(t, p.addr)
	assert.InDelta(t, 1, p.do("drop-reply create path=^/a$")[0]["rule"], 0)
	_, err := c.Create("/other", nil, 0, open)
	require.NoError(t, err)
	_, err = c.Create("/a", nil, 0, open)
	require.ErrorIs(t, err, zk.ErrConnectionClosed)
	expect(t, events, zk.StateHasSession) // until then the client refuses requests
	p.do("await 1")
	p.do("get /a") // it was applied

	p.do("fail no-auth getData times=2")
	for range 2 {
		_, _, err = c.Get("/a")
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	_, _, err = c.Get("/a")
	require.NoError(t, err)

	p.do("fail -101 setData skip=1")
	_, err = c.Set("/a", nil, -1)
	require.NoError(t, err)
	_, err = c.Set("/a", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoNode)

	p.do(fmt.Sprintf("delay 30ms exists from=%d", c.SessionID()))
	started := time.Now()
	_, _, err = c.Exists("/a")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(started), 30*time.Millisecond)

	p.do("count setData times=all")
	for range 3 {
		_, err = c.Set("/a", nil, -1)
		require.NoError(t, err)
	}
	p.do("fail no-auth create")
	_, err = c.CreateContainer("/box", nil, zk.FlagContainer, open)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	p.do("await 6")
	list := p.do("rules")
	require.Len(t, list, 6)
	assert.Equal(t, "count setData times=all", list[4]["asked"])
	assert.InDelta(t, 3, list[4]["hits"], 0)
	assert.Equal(t, false, list[4]["done"])
	p.fails("await 5 1ms", "rule 5 has matched 3 times in 1ms: with times=all, it never ends")
	p.do("remove 5")
	p.do("await 5")
	p.do("ignore")
	p.do("remove all")
	p.fails("await 7", "rule 7 was removed after 0 of 1 hits")
}

func TestViolations_AreListedAndTold(t *testing.T) {
	t.Parallel()
	p := launch(t)
	c, _ := dial(t, p.addr)
	p.do("forbid getChildren2")
	_, _, err := c.Children("/")
	require.NoError(t, err)
	list := p.do("violations")
	require.Len(t, list, 1)
	assert.Contains(t, list[0]["violation"], "forbidden request")
	assert.Equal(t, false, list[0]["misuse"])
	assert.Zero(t, p.end())
	assert.Contains(t, p.errs.String(), "zktestd: violation: forbidden request")
}

func TestWatches(t *testing.T) {
	t.Parallel()
	p := launch(t)
	// Not go-zookeeper, which has a data race if a watch is set as soon as it has connected.
	client, err := conn.Dial(t.Context(), p.addr)
	require.NoError(t, err)
	defer client.Close()
	s, err := client.Session(t.Context())
	require.NoError(t, err)
	watch := func() <-chan struct{} {
		_, _, changed, err := s.GetW(t.Context(), "/")
		require.NoError(t, err)
		return changed
	}
	changed := watch()
	assert.Len(t, p.do("watchers /"), 1)
	assert.InDelta(t, 1, p.do("event changed /")[0]["connections"], 0)
	<-changed
	watch()
	assert.InDelta(t, 1, p.do("lose-watch /")[0]["watches"], 0)
	assert.Empty(t, p.do("watchers /"))
	p.do(`create /box "" container`)
	p.do("create /box/a")
	p.do("delete /box/a")
	assert.Equal(t, "/box", p.do("reap")[0]["removed"])
}

func TestFreezeAndStall_SwallowRequests(t *testing.T) {
	t.Parallel()
	p := launch(t)
	c, _ := dial(t, p.addr)
	for _, words := range [][2]string{
		{"freeze", "thaw"}, {"stall", "heal"}, {"stall to-server", "heal all"}, {"stall all both", "heal"},
	} {
		p.do(words[0])
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.Get("/")
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Errorf("%s: answered, %v", words[0], err)
		case <-time.After(20 * time.Millisecond):
		}
		p.do(words[1])
		require.NoError(t, <-answered)
	}
}

func TestLatency_MakesRequestsWait(t *testing.T) {
	t.Parallel()
	p := launch(t)
	c, _ := dial(t, p.addr)
	took := func() time.Duration {
		started := time.Now()
		_, err := c.Set("/", nil, -1)
		require.NoError(t, err)
		return time.Since(started)
	}
	p.do("latency 30ms")
	assert.GreaterOrEqual(t, took(), 30*time.Millisecond)
	p.do("write-latency 30ms")
	assert.GreaterOrEqual(t, took(), 60*time.Millisecond)
	p.do("latency 0s")
	p.do("write-latency 0s")
}

func TestFronts_AreStoppedOneByOne(t *testing.T) {
	t.Parallel()
	p := launch(t, "-fronts", "3")
	addrs := strings.Split(p.addr, ",")
	require.Len(t, addrs, 3)
	a, first := dial(t, addrs[0])
	_, third := dial(t, addrs[2])
	_, err := a.Create("/a", nil, zk.FlagEphemeral, open)
	require.NoError(t, err)
	p.do("stop 1")
	expect(t, first, zk.StateDisconnected)
	p.do("isolate 2") // no majority is left
	expect(t, third, zk.StateDisconnected)
	p.do("rejoin 2")
	expect(t, third, zk.StateHasSession)
	p.do("start 1")
	expect(t, first, zk.StateHasSession)
	p.do("lag 3")
	p.do("catch-up 3")
	list := p.do("addresses")
	require.Len(t, list, 3)
	assert.Equal(t, addrs[1], list[1]["address"])
	p.do("stop")
	expect(t, first, zk.StateDisconnected)
	p.do("start")
	expect(t, first, zk.StateHasSession)
	p.do("get /a")
}

func TestFlags_ReachTheServer(t *testing.T) {
	t.Parallel()
	p := launch(t, "-max-buffer", "1000", "-super", "root:secret", "-ttl", "-quotas", "-reconfig", "-sasl", "joe:x",
		"-release", "3.8.4")
	nc, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	_, err = io.WriteString(nc, "srvr")
	require.NoError(t, err)
	answer, err := io.ReadAll(nc)
	require.NoError(t, err)
	require.Contains(t, string(answer), "version: 3.8.4-")
	require.NoError(t, nc.Close())
	c, events := dial(t, p.addr)
	_, err = c.CreateTTL("/ttl", nil, zk.FlagTTL, open, time.Hour)
	require.NoError(t, err)
	p.do("create /limit")
	_, err = c.SetACL("/limit", zk.WorldACL(zk.PermRead), -1)
	require.NoError(t, err)
	_, err = c.Set("/limit", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NoError(t, c.AddAuth("digest", []byte("root:secret")))
	_, err = c.Set("/limit", nil, -1)
	require.NoError(t, err)
	_, err = c.Set("/limit", make([]byte, 1000), -1)
	require.Error(t, err)
	expect(t, events, zk.StateDisconnected)
}

func TestFlags_OfAuthentication_ReachTheServer(t *testing.T) {
	t.Parallel()
	c, _ := dial(t, launch(t, "-no-acls").addr)
	_, err := c.SetACL("/", zk.WorldACL(zk.PermRead), -1)
	require.NoError(t, err)
	_, err = c.Create("/n", nil, 0, open)
	require.NoError(t, err)
	c, events := dial(t, launch(t, "-require-auth", "digest").addr)
	_, _, err = c.Get("/")
	require.Error(t, err)
	expect(t, events, zk.StateDisconnected)
}

func TestHTTP_TakesTheSameCommands(t *testing.T) {
	p := launch(t, "-http", "127.0.0.1:0")
	post := func(method, body string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, p.url, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	status, text := post(http.MethodPost, "create /a\nfreeze")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "{\"path\":\"/a\"}\nok\nok\n", text)
	status, text = post(http.MethodPost, "bogus")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, text, "error: unknown command")
	status, text = post(http.MethodGet, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, "list the commands")
	assert.Len(t, p.do("tree"), 2)
}

// TestHTTP_RefusesForeignHostAndOrigin: a page in a browser can post to this machine, by the page's name or by ours.
// Neither may command the server.
func TestHTTP_RefusesForeignHostAndOrigin(t *testing.T) {
	p := launch(t, "-http", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/"))
	require.NoError(t, err)
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"127.0.0.1:" + port, "", http.StatusOK},
		{"localhost:" + port, "", http.StatusOK},
		{"LocalHost:" + port, "", http.StatusOK},
		{"[::1]:" + port, "", http.StatusOK},
		{"localhost", "http://localhost", http.StatusOK},
		{"evil.example:" + port, "", http.StatusForbidden},
		{"evil.example", "http://evil.example", http.StatusForbidden},
		{"127.0.0.1.evil.example", "", http.StatusForbidden},
		{"10.1.2.3:" + port, "", http.StatusForbidden},
		{"127.0.0.1:" + port, "http://evil.example", http.StatusForbidden},
		{"127.0.0.1:" + port, "null", http.StatusForbidden},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			r, err := http.NewRequestWithContext(t.Context(), method, p.url, strings.NewReader("create /a\ndelete /a"))
			require.NoError(t, err)
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			if method == http.MethodPost || c.origin == "" { // help may be read from any origin
				require.Equal(t, c.status, answer.StatusCode, "%s %+v", method, c)
			}
		}
	}
	require.Len(t, p.do("history"), 2*5)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // has a certificate for tests
	defer web.Close()
	pair := web.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	p := launch(t, "-tls-cert", cert, "-tls-key", key)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	dialer := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		d := tls.Dialer{
			NetDialer: &net.Dialer{Timeout: timeout},
			Config:    &tls.Config{RootCAs: roots, ServerName: "example.com"},
		}
		return d.DialContext(t.Context(), network, addr)
	}
	c, events, err := zk.Connect([]string{p.addr}, 10*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(dialer))
	require.NoError(t, err)
	defer c.Close()
	expect(t, events, zk.StateHasSession)

	p = launch(t, "-tls-cert", cert, "-tls-key", key, "-tls-client-ca", cert, "-require-auth", "x509")
	stranger, err := dialer("tcp", p.addr, 10*time.Second)
	if err == nil { // in TLS 1.3 the refusal follows the handshake
		_, err = stranger.Read(make([]byte, 1))
		_ = stranger.Close() // refused
	}
	require.ErrorContains(t, err, "certificate required")
}
