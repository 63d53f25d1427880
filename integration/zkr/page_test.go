package zkr

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// tab is a page of zkr serve in a browser.
type tab struct{ *browser.Tab }

func browse(t *testing.T, url string) *tab { t.Helper(); return &tab{browser.Open(t, url)} }

// shows waits until an element has a text, and returns how long that took.
func (p *tab) shows(selector, text string) time.Duration {
	p.Helper()
	began := time.Now()
	has := fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`,
		selector, text)
	if err := p.Poll(has); err != nil {
		require.NoError(p, err, "%s does not show %q:\n%s", selector, text,
			browser.Evaluate[string](p.Tab, `document.body.innerText`))
	}
	return time.Since(began)
}

// fill replaces the text of a field.
func (p *tab) fill(id, text string) {
	p.Helper()
	browser.Evaluate[string](p.Tab, fmt.Sprintf(`{
		const field = document.getElementById(%q);
		field.value = %q;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		field.value;
	}`, id, text))
}

// focused returns the text of the element that has the keyboard focus.
func (p *tab) focused() string {
	p.Helper()
	return browser.Evaluate[string](p.Tab, `document.activeElement.id || document.activeElement.textContent`)
}

func (p *tab) click(selector string) { p.Helper(); p.Do(chromedp.Click(selector)) }

// count returns the number of elements.
func (p *tab) count(selector string) int {
	p.Helper()
	return browser.Evaluate[int](p.Tab, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// serve runs zkr serve, and returns the address of its page, the key that it has generated, if any, and a function that
// kills it.
func serve(t *testing.T, servers string, args ...string) (url, key string, kill func()) {
	t.Helper()
	keyFile := filepath.Join(t.TempDir(), "key")
	if slices.Contains(args, "--allow-break") {
		args = append(args, "--break-key-file", keyFile)
	}
	z := program(t)(t.Context(), append([]string{"serve", "-v", "--log=json", "--http=127.0.0.1:0", "--servers", servers},
		args...)...)
	log, err := z.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, z.Start())
	kill = func() {
		_ = z.Process.Kill() // it may already have ended
		_ = z.Wait()
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			url = "http://" + line.Address + "/ui/"
			go func() {
				for lines.Scan() { // zkr must not block on its log
				}
			}()
			break
		}
	}
	require.NotEmpty(t, url, "zkr serve has ended")
	if i := slices.Index(args, "--http-token-file"); i >= 0 {
		token, err := os.ReadFile(args[i+1])
		require.NoError(t, err)
		url = strings.Replace(url, "//", "//page:"+string(token)+"@", 1)
	}
	live(t, url+"events")
	if slices.Contains(args, "--allow-break") {
		text, err := os.ReadFile(keyFile)
		require.NoError(t, err)
		key = strings.TrimSpace(string(text))
	}
	return url, key, kill
}

// live waits until zkr knows all queues, from when on it keeps the changes.
func live(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }() // it was only read
	lines := bufio.NewReader(answer.Body)
	for text := ""; !strings.Contains(text, `"current":true`); {
		text, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
}

// locker is a client with a mutex.
func locker(t *testing.T, servers, id, path string) *mutex.Mutex {
	t.Helper()
	c, err := conn.Dial(t.Context(), servers, conn.WithIdentity(id), conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it returns nil
	m, err := mutex.New(c, path)
	require.NoError(t, err)
	return m
}

// TestPage_InABrowser: a user sees changes, including earlier ones, breaks a lock, and sees a lost connection.
func TestPage_InABrowser(t *testing.T) {
	server := zkserver.Start(t)
	one, two := locker(t, server.Addr(), "web1/42", "/jobs/nightly"), locker(t, server.Addr(), "web2/7", "/jobs/nightly")
	url, key, kill := serve(t, server.Addr(), "--ui-root=/jobs", "--allow-break")
	first, err := one.Lock(t.Context())
	require.NoError(t, err)
	p := browse(t, url)
	p.shows("#state", "live")
	p.shows(".queue", "web1/42")
	p.shows("#changes .of", "/jobs/nightly")
	p.shows("#changes .words", "free → web1/42")
	p.shows("#lanes .now", "web1/42")

	granted := make(chan *zkrecipes.Hold, 1)
	go func() {
		h, err := two.Lock(t.Context())
		if err == nil {
			granted <- h
		}
	}()
	require.Eventually(t, func() bool {
		queue, err := one.Queue(t.Context())
		return err == nil && len(queue) == 2
	}, browser.Patience, 10*time.Millisecond)
	p.shows(".queue .waiting", "1 waits") // otherwise the page might see the lock free for an instant
	require.NoError(t, first.Release(t.Context()))
	second := <-granted
	t.Logf("the next holder is on the page %v after its grant",
		p.shows(".queue .holder", "web2/7").Round(time.Millisecond))
	p.shows("#changes li", "web1/42 → web2/7")

	// Clicking the row shows the contenders. Only the second button deletes, and only with the key.
	p.click("summary")
	p.click(".card button")
	p.shows("#break", "web2/7 holds at /jobs/nightly")
	czxid := second.Token().String()
	for _, text := range []string{"/jobs/nightly", "web2/7", czxid + " (czxid)"} {
		p.shows("#facts dd", text)
	}
	p.fill("key", "no key")
	p.Do(chromedp.Focus("#key"), chromedp.KeyEvent(kb.Enter)) // it asks, and does not cancel
	p.shows("#refused", "does not contain the key")
	p.Do(chromedp.Sleep(1100 * time.Millisecond)) // after a wrong key, no other is accepted for a second
	p.fill("key", key)
	p.fill("reason", "a test")
	browser.Evaluate[bool](p.Tab, `{
		globalThis.rested = false;
		const button = document.getElementById('really');
		new MutationObserver(() => { rested ||= button.disabled && button.textContent.startsWith('Delete'); }).observe(button, { attributes: true });
		rested;
	}`)
	p.Do(chromedp.DoubleClick("#really"))
	p.shows("#facts dd", ", alive")
	p.shows("#really", "Delete czxid "+czxid)
	require.True(t, browser.Evaluate[bool](p.Tab, `rested`), "the second half of a double click would have deleted")
	p.Do(chromedp.WaitEnabled("#really"))
	p.click("#really")
	p.shows("#refused", "is alive")
	require.NoError(t, second.Err(), "nothing was deleted yet")
	p.click("#alive")
	p.click("#really")
	select {
	case <-second.Done():
	case <-time.After(browser.Patience):
		require.Fail(t, "the holder has its lock still")
	}
	p.shows("#changes li", "web2/7 → free")
	p.Do(chromedp.WaitNotPresent(chromedp.CSS("dialog[open]")))
	again, err := one.Lock(t.Context())
	require.NoError(t, err)
	p.shows(".time li", "web1/42 for ")
	p.shows(".time li", "web2/7 held for ")
	p.shows(".time li", "web1/42 held for ")
	require.Equal(t, 3, p.count(".time li"))
	// The bar of the present hold grows longer than the others.
	p.Await(`parseFloat(document.querySelector('.held .now').style.width) > 50`)
	require.NoError(t, again.Release(t.Context()))

	// The page of a zkr that may not delete has no buttons.
	_, err = one.Lock(t.Context())
	require.NoError(t, err)
	plain, _, _ := serve(t, server.Addr(), "--ui-root=/jobs")
	q := browse(t, plain)
	q.shows(".queue", "web1/42")
	q.click("summary")
	q.shows(".card", "web1/42")
	require.Zero(t, q.count(".card button"))

	p.shows("#detail", "from "+server.Addr())
	require.NoError(t, server.Kill())
	p.shows("#state", "no connection to ZooKeeper")
	p.shows("#detail", "connection refused")
	p.shows("#detail", "The page shows the state of")
	kill()
	p.shows("#state", "no connection to zkr")
	q.shows("#state", "no connection to ZooKeeper")
}

// TestPage_ComesBack: after a failure that ends the browser's event stream, and after a peer that has vanished.
func TestPage_ComesBack(t *testing.T) {
	server := zkserver.Start(t)
	url, _, _ := serve(t, server.Addr(), "--ui-root=/jobs")
	to, err := neturl.Parse(strings.TrimSuffix(url, "/ui/"))
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.FlushInterval = -1
	var fault atomic.Pointer[http.HandlerFunc]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := fault.Load(); f != nil {
			(*f)(w, r)
			return
		}
		forward.ServeHTTP(&frozen{w, &fault}, r)
	}))
	t.Cleanup(proxy.Close)
	p := browse(t, proxy.URL+"/ui/")
	p.shows("#state", "live")
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, f := range map[string]*http.HandlerFunc{"refuses": &refuse, "hangs": &hang} {
		fault.Store(f)
		if name == "refuses" {
			proxy.CloseClientConnections()
		}
		t.Logf("the page tells that zkr %s after %v", name, p.shows("#state", "no connection to zkr").Round(time.Millisecond))
		p.shows("#detail", "next try in")
		m := locker(t, server.Addr(), name+"/1", "/jobs/"+name)
		_, err = m.Lock(t.Context())
		require.NoError(t, err)
		fault.Store(nil)
		t.Logf("it is back after %v", p.shows("#state", "live").Round(time.Millisecond))
		p.shows(".queue .holder", name+"/1")
	}
}

// frozen is an answer that nobody receives any more during a fault: the peer has vanished.
type frozen struct {
	http.ResponseWriter
	fault *atomic.Pointer[http.HandlerFunc]
}

func (f *frozen) Write(text []byte) (int, error) {
	if f.fault.Load() != nil {
		return len(text), nil
	}
	return f.ResponseWriter.Write(text)
}

func (f *frozen) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// misplaced lists what is cut off at a side, texts that are only partly drawn, and what no pointer reaches, within the
// dialog if it is open.
const misplaced = `{
	const found = [], tell = (what, e) => found.push(what + ': ' + e.outerHTML.slice(0, 80));
	if (document.scrollingElement.scrollWidth > innerWidth) tell('scrolls to a side', document.body);
	for (const e of document.querySelectorAll('body *')) {
		const { left, right } = e.getBoundingClientRect();
		if (e.checkVisibility() && (left < 0 || right > innerWidth + 1)) tell('cut off', e);
		if (e.matches('bdi') && e.checkVisibility() && e.innerText !== e.textContent) tell('text that is not drawn', e);
	}
	for (const e of (document.querySelector('dialog[open]') ?? document).querySelectorAll('summary, button, input, select')) {
		if (!e.checkVisibility()) continue;
		e.scrollIntoView({ block: 'nearest' });
		const { left, right, top, bottom } = e.getBoundingClientRect();
		if (top < -1 || bottom > innerHeight + 1 || !e.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2))) tell('out of reach', e);
	}
	found;
}`

// fits requires that nothing is misplaced or faint.
func (p *tab) fits(what string) {
	p.Helper()
	require.Empty(p, browser.Evaluate[[]string](p.Tab, misplaced), what)
	require.Empty(p, p.Faint("", ""), what)
}

// TestPage_IsFitToRead: on a phone and on a desktop, in light and in dark colors, nothing is cut off or faint, and the
// keyboard does everything.
func TestPage_IsFitToRead(t *testing.T) {
	server := zkserver.Start(t)
	long := "/jobs/" + strings.Repeat("nightly-report-of-the-", 4) + "warehouse"
	all := queues(t, server.Addr(), long)
	url, _, _ := serve(t, server.Addr(), "--ui-root=/jobs", "--allow-break", "--stuck=1s")
	p := browse(t, url)
	for _, width := range []int64{390, 1280} {
		for _, dark := range []bool{false, true} {
			p.Look(width, 900, dark)
			p.Do(chromedp.Reload())
			p.shows("#state", "live")
			p.shows("#count", fmt.Sprint(all, " queues"))
			p.shows(".verdict.warn", "stuck behind")
			look := fmt.Sprintf("-%d-%v", width, browser.Scheme(dark))
			p.fits("closed" + look)
			p.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("/"))
			require.Equal(t, "filter", p.focused())
			p.fill("filter", "") // only a test types the slash as well
			for p.focused() == "filter" || !strings.Contains(p.focused(), "/jobs/orders") {
				before := p.focused()
				p.Do(chromedp.KeyEvent(kb.ArrowDown))
				require.NotEqual(t, before, p.focused(), "the arrow does not reach the queue")
			}
			p.Do(chromedp.KeyEvent(kb.Enter))
			p.shows(".card .role", "waits, place 2")
			p.shows(".card", "behind web1/42")
			p.fits("open" + look)
			p.Do(chromedp.KeyEvent(kb.Tab))
			require.Equal(t, "break…", p.focused())
			p.Do(chromedp.KeyEvent(kb.Enter))
			p.shows("#doomed", "web1/42 holds at /jobs/orders")
			p.fits("break" + look)
			p.Do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent(chromedp.CSS("dialog[open]")))
			p.Await(`document.activeElement.textContent === 'break…'`) // the keyboard focus is where it was
		}
	}
}

// TestPage_WhatAnOperatorLooksFor: an empty page suggests what to run, counts filter, trouble comes first, and shards
// are one row with a table.
func TestPage_WhatAnOperatorLooksFor(t *testing.T) {
	server := zkserver.Start(t)
	c, err := conn.Dial(t.Context(), server.Addr(), conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it returns nil
	require.NoError(t, c.CreateAll(t.Context(), "/jobs", nil))
	url, _, _ := serve(t, server.Addr(), "--ui-root=/jobs", "--stuck=1s")
	p := browse(t, url)
	p.shows("#nothing", "No locks below /jobs")
	p.shows("#try", "zkr lock --servers "+server.Addr()+" /jobs/demo -- sleep 60")
	all := func(what string) {
		t.Helper()
		for _, width := range []int64{390, 1280} {
			for _, dark := range []bool{false, true} {
				p.Look(width, 900, dark)
				p.fits(fmt.Sprintf("%s-%d-%v", what, width, browser.Scheme(dark)))
			}
		}
	}
	all("empty")

	queues(t, server.Addr(), "/jobs/long")
	require.NoError(t, c.CreateAll(t.Context(), "/jobs/old/lock-0000000007", []byte("old-host/3")))
	_, err = c.Create(t.Context(), "/jobs/secret", nil, 0, zk.DigestACL(zk.PermAll, "joe", "secret")...)
	require.NoError(t, err)
	shards(t, server.Addr(), "/jobs/parts", "m1", "m2")
	p.shows(".queue .kind", "shards")
	p.shows(".queue .verdict", "owned")
	p.shows(".queue .verdict", "stuck behind")
	require.False(t, browser.Evaluate[bool](p.Tab, `document.getElementById('empty').checkVisibility()`))
	paths := func() string {
		t.Helper()
		return browser.Evaluate[string](p.Tab,
			`[...document.querySelectorAll('.queue .path > bdi')].map((e) => e.textContent).join(' ')`)
	}
	require.Equal(t, "/jobs/nightly /jobs/old /jobs/orders /jobs/prices /jobs/secret /jobs/long /jobs/parts", paths())
	for name, want := range map[string]string{
		"held":    "/jobs/nightly /jobs/old /jobs/orders /jobs/prices /jobs/long /jobs/parts",
		"waiting": "/jobs/orders /jobs/prices",
		"stuck":   "/jobs/orders /jobs/prices", "ghost": "/jobs/old", "unreadable": "/jobs/secret",
		"foreign node": "/jobs/nightly",
	} {
		button := fmt.Sprintf(`[...document.querySelectorAll('#strip button')].find((b) => b.textContent.endsWith(%q))`, name)
		require.Equal(t, fmt.Sprint(len(strings.Fields(want)), name), browser.Evaluate[string](p.Tab, button+`.textContent`))
		browser.Evaluate[bool](p.Tab, button+`.click(); true`)
		require.Equal(t, want, paths(), name)
		browser.Evaluate[bool](p.Tab, button+`.click(); true`) // shows all again
	}
	browser.Evaluate[bool](p.Tab, `document.querySelectorAll('#queues details').forEach((e) => { e.open = true; }); true`)
	p.shows(".shards td", "p2")
	require.Equal(t, 3+2, p.count(".shards tbody tr"))
	all("operator")
	browser.Evaluate[bool](p.Tab, `document.querySelectorAll('#queues details').forEach((e) => { e.open = false; }); true`)
	all("operator-closed")
	require.Less(t, browser.Evaluate[float64](p.Tab, `[...document.querySelectorAll('.queue')].at(-1).offsetHeight`), 36.,
		"a queue is one line")
}

// shards starts members, which divide three shards, until the test ends.
func shards(t *testing.T, servers, path string, members ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	for _, id := range members {
		c, err := conn.Dial(t.Context(), servers, conn.WithIdentity(id), conn.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() }) // it returns nil
		all, err := shard.New(c, path, shard.WithID(id), shard.WithSettle(0, 0))
		require.NoError(t, err)
		running.Go(func() {
			_ = all.Run(ctx, shard.List("p0", "p1", "p2"),
				func(ctx context.Context, _ *shard.Shard) error { <-ctx.Done(); return nil })
		})
	}
}

// queues creates a few queues below /jobs, and returns how many.
func queues(t *testing.T, servers, long string) int {
	t.Helper()
	for _, path := range []string{long, "/jobs/nightly"} {
		_, err := locker(t, servers, "web1/42", path).Lock(t.Context())
		require.NoError(t, err)
	}
	one := locker(t, servers, "web1/42", "/jobs/orders")
	_, err := one.Lock(t.Context())
	require.NoError(t, err)
	for i, id := range []string{"web2/7", strings.Repeat("a-long-name-", 9), "שרת/9"} {
		m := locker(t, servers, id, "/jobs/orders")
		go func() { _, _ = m.Lock(t.Context()) }() // it waits until the test ends
		require.Eventually(t, func() bool {
			queue, err := one.Queue(t.Context())
			return err == nil && len(queue) == i+2
		}, browser.Patience, 10*time.Millisecond)
	}
	c, err := conn.Dial(t.Context(), servers, conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it returns nil
	require.NoError(t, c.CreateAll(t.Context(), "/jobs/prices", nil))
	for _, kind := range []string{"__READ__", "__READ__", "__WRIT__", "__READ__", "__READ__"} {
		_, err := c.Create(t.Context(), "/jobs/prices/_c_6b9ea79f-6b6f-4f15-9a2f-2c6e9a4a8d3e-"+kind, []byte("db1/3"),
			zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
	}
	_, err = c.Create(t.Context(), "/jobs/nightly/such-", []byte("x"), zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	return 4
}

// TestPage_OwnDeadline: the page shows the deadline of the candidate that it knows, and of no other.
func TestPage_OwnDeadline(t *testing.T) {
	server := zkserver.Start(t, zkserver.WithSessionTimeouts(0, time.Minute))
	_, err := locker(t, server.Addr(), "web1/42", "/app/other").Lock(t.Context())
	require.NoError(t, err)
	url, _, _ := serve(t, server.Addr(), "--elect=/app/leader", "--id=pod-1", "--session-timeout=30s")
	p := browse(t, url)
	p.shows(".queue .holder", "pod-1")
	for range 2 {
		p.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	}
	p.shows(".card", "web1/42")
	p.shows(".card.holds", "this zkr; proven for ")
	require.Equal(t, 1, p.count(".left"))
	for range 3 {
		left := browser.Evaluate[string](p.Tab, `document.querySelector('.left').textContent`)
		require.Regexp(t, `^([5-9]|[12][0-9]) s$`, left)
		p.Do(chromedp.Sleep(time.Second))
	}
}

// TestPage_Login: a user who has given the token to the browser sees the page live.
func TestPage_Login(t *testing.T) {
	server := zkserver.Start(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("0123456789-0123456789"), 0o600))
	url, _, _ := serve(t, server.Addr(), "--ui-root=/jobs", "--http-token-file", file)
	at, err := neturl.Parse(url)
	require.NoError(t, err)
	who := at.User
	at.User = nil
	p := browse(t, at.JoinPath("../healthz").String())
	p.shows("body", "alive")

	// The answer to the browser's prompt, which the browser keeps for the server.
	login := *at
	login.User, login.Path = who, "/metrics"
	p.Do(chromedp.Navigate(login.String()))
	p.shows("body", "zkrecipes_")
	p.Do(chromedp.Navigate(at.String()))
	p.shows("#state", "live")
	h, err := locker(t, server.Addr(), "web1/42", "/jobs/nightly").Lock(t.Context())
	require.NoError(t, err)
	p.shows(".queue", "web1/42")
	require.NoError(t, h.Release(t.Context()))
}
