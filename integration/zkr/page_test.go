package zkr

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// tab is a page of zkr serve in a browser.
type tab struct {
	*testing.T
	ctx context.Context
}

// browse opens a page in Chromium. Without one the test is skipped; with REQUIRE_REAL=1 it fails.
func browse(t *testing.T, url string) *tab {
	t.Helper()
	var name string
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(candidate); err == nil && name == "" {
			name = path
		}
	}
	if name == "" {
		if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatal("no Chromium: apt-get install chromium")
		}
		t.Skip("no Chromium: apt-get install chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.WindowSize(1100, 900), chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{t, ctx}
	p.do(chromedp.Navigate(url))
	return p
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, actions...))
}

// evaluate returns the value of an expression.
func evaluate[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	require.NoError(p, err)
	return value
}

// shows waits until an element has a text, and returns how long that took.
func (p *tab) shows(selector, text string) time.Duration {
	p.Helper()
	began := time.Now()
	has := fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`, selector, text)
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](has, chromedp.WithPollingTimeout(30*time.Second))); err != nil {
		require.NoError(p, err, "%s does not show %q:\n%s", selector, text, evaluate[string](p, `document.body.innerText`))
	}
	return time.Since(began)
}

// fill replaces the text of a field.
func (p *tab) fill(id, text string) {
	p.Helper()
	evaluate[string](p, fmt.Sprintf(`{
		const field = document.getElementById(%q);
		field.value = %q;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		field.value;
	}`, id, text))
}

func (p *tab) click(selector string) { p.Helper(); p.do(chromedp.Click(selector)) }

// count is how many elements there are.
func (p *tab) count(selector string) int {
	p.Helper()
	return evaluate[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// serve runs zkr serve, and returns the address of its page, the key that it has printed, if any, and how to kill it.
func serve(t *testing.T, servers string, args ...string) (url, key string, kill func()) {
	t.Helper()
	z := program(t)(t.Context(), append([]string{"serve", "-v", "--log=json", "--http=127.0.0.1:0", "--servers", servers}, args...)...)
	out, err := z.StdoutPipe()
	require.NoError(t, err)
	log, err := z.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, z.Start())
	kill = func() {
		_ = z.Process.Kill() // it may have ended
		_ = z.Wait()
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			url = "http://" + line.Address + "/ui/"
			go func() {
				for lines.Scan() { // zkr must not wait for its log
				}
			}()
			break
		}
	}
	require.NotEmpty(t, url, "zkr serve has ended")
	live(t, url+"events")
	if slices.Contains(args, "--allow-break") {
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		words := strings.Fields(line)
		key = words[len(words)-1]
	}
	return url, key, kill
}

// live waits until zkr knows all queues: it keeps the changes from then on.
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

// TestPage_InABrowser: a person sees changes, those from before as well, breaks a lock, and sees a lost connection.
// PAGE_PICTURE=file keeps a picture of the dialog.
func TestPage_InABrowser(t *testing.T) {
	server := zkserver.Start(t)
	one, two := locker(t, server.Addr(), "web1/42", "/jobs/nightly"), locker(t, server.Addr(), "web2/7", "/jobs/nightly")
	url, key, kill := serve(t, server.Addr(), "--ui-root=/jobs", "--allow-break")
	first, err := one.Lock(t.Context())
	require.NoError(t, err)
	p := browse(t, url)
	p.shows("#state", "live")
	p.shows("tr.queue", "web1/42")
	p.shows("#changes li", "/jobs/nightly: free → web1/42")

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
	}, 30*time.Second, 10*time.Millisecond)
	p.shows("tr.queue td:nth-child(6)", "1") // else the page may see the lock free for an instant
	require.NoError(t, first.Release(t.Context()))
	second := <-granted
	t.Logf("the next holder is on the page %v after its grant", p.shows("tr.queue td:nth-child(4)", "web2/7").Round(time.Millisecond))
	p.shows("#changes li", "web1/42 → web2/7")

	// A click into the row shows the contenders. Only the second button deletes, and only with the key.
	p.click("tr.queue")
	p.click("tr.contender button")
	p.shows("#break", "web2/7 holds at /jobs/nightly")
	czxid := second.Token().String()
	for _, text := range []string{"/jobs/nightly", "web2/7", czxid + " (czxid)"} {
		p.shows("#facts dd", text)
	}
	p.fill("key", "no key")
	p.click("#really")
	p.shows("#refused", "not the key")
	p.fill("key", key)
	p.fill("reason", "a test")
	evaluate[bool](p, `{
		globalThis.rested = false;
		const button = document.getElementById('really');
		new MutationObserver(() => { rested ||= button.disabled && button.textContent.startsWith('Delete'); }).observe(button, { attributes: true });
		rested;
	}`)
	p.do(chromedp.DoubleClick("#really"))
	p.shows("#facts dd", ", alive")
	p.shows("#really", "Delete czxid "+czxid)
	require.True(t, evaluate[bool](p, `rested`), "the second half of a double click would have deleted")
	p.do(chromedp.WaitEnabled("#really"))
	p.click("#really")
	p.shows("#refused", "is alive")
	require.NoError(t, second.Err(), "nothing was deleted yet")
	if picture := os.Getenv("PAGE_PICTURE"); picture != "" {
		image, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(picture, image, 0o600))
	}
	p.click("#alive")
	p.click("#really")
	select {
	case <-second.Done():
	case <-time.After(30 * time.Second):
		require.Fail(t, "the holder has its lock still")
	}
	p.shows("#changes li", "web2/7 → free")
	p.do(chromedp.WaitNotPresent(chromedp.CSS("dialog[open]")))

	// The page of a zkr that may not delete has no buttons.
	_, err = one.Lock(t.Context())
	require.NoError(t, err)
	plain, _, _ := serve(t, server.Addr(), "--ui-root=/jobs")
	q := browse(t, plain)
	q.shows("tr.queue", "web1/42")
	q.click("tr.queue")
	q.shows("tr.contender", "web1/42")
	require.Zero(t, q.count("tr.contender button"))

	require.NoError(t, server.Kill())
	p.shows("#state", "no connection to ZooKeeper")
	kill()
	p.shows("#state", "no connection to zkr")
	q.shows("#state", "no connection to ZooKeeper")
}

// TestPage_ThousandLocks: the filter is quick, and so is a change.
func TestPage_ThousandLocks(t *testing.T) {
	server := zkserver.Start(t)
	c, err := conn.Dial(t.Context(), server.Addr(), conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // it returns nil
	for i := range 1000 {
		path := fmt.Sprintf("/jobs/job%03d", i)
		require.NoError(t, c.CreateAll(t.Context(), path, nil))
		_, err := c.Create(t.Context(), path+"/_c_6b9ea79f-6b6f-4f15-9a2f-2c6e9a4a8d3e-lock-", fmt.Append(nil, "web", i, "/", i), zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
	}
	url, _, _ := serve(t, server.Addr())
	p := browse(t, url)
	t.Logf("1000 locks are on the page after %v", p.shows("#count", "1000 queues").Round(time.Millisecond))
	p.fill("filter", "job999")
	t.Logf("one of them is found after %v", p.shows("#count", "1 of 1000 queues").Round(time.Millisecond))
	p.fill("filter", "")
	drawn := evaluate[float64](p, `{ const began = performance.now(); show(); performance.now() - began }`)
	m := locker(t, server.Addr(), "late/1", "/jobs/zz-late")
	_, err = m.Lock(t.Context())
	require.NoError(t, err)
	t.Logf("the page is drawn anew in %.0f ms, and a new holder is told after %v", drawn, p.shows("#changes li", "free → late/1").Round(time.Millisecond))
	p.shows("#count", "1001 queues")
}

// TestPage_NamesThatTurnTextAround: what a name hides is seen, on the page, in its JSON and in the dialog.
func TestPage_NamesThatTurnTextAround(t *testing.T) {
	server := zkserver.Start(t)
	const path = "/jobs/\u202egpj.tsniaga"
	m := locker(t, server.Addr(), "\u202ebwe/42<b>", path)
	_, err := m.Lock(t.Context())
	require.NoError(t, err)
	hebrew := locker(t, server.Addr(), "שרת/7", "/jobs/שרת")
	h, err := hebrew.Lock(t.Context())
	require.NoError(t, err)
	url, _, _ := serve(t, server.Addr(), "--ui-root=/jobs", "--allow-break")
	answer, err := http.Get(url + "events") //nolint:noctx // the test ends it
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }() // it was only read
	event, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, event, `/jobs/\u202egpj.tsniaga`)
	require.NotContains(t, event, "\u202e")

	p := browse(t, url)
	p.shows("#state", "live")
	p.shows("tr.queue bdi", `/jobs/\u202egpj.tsniaga`)
	p.shows("tr.queue bdi", "bwe/42<b>")
	p.click("tbody:last-of-type tr.queue") // the second one, by its path
	p.click("tr.contender button")
	p.shows("#facts dd bdi", `/jobs/\u202egpj.tsniaga`)
	require.NoError(t, h.Release(t.Context()))
	p.shows("#changes bdi", "/jobs/שרת")
	require.False(t, evaluate[bool](p, `/[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)`))
	p.fill("filter", "gpj")
	p.shows("#count", "1 queue")
	require.Equal(t, 1, p.count("tr.queue"))
}
