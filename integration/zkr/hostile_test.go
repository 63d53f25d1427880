package zkr

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// hostile are locks as any client of the servers can make them: a path, the data of its contenders, and what the page
// shows for the path. Code that runs announces itself in the variable owned.
var hostile = []struct{ path, data, shown string }{
	{"/jobs/\u202egpj.tsniaga\u2066\u061c", "\u202ebwe/42\u2067 (\u202etsoh/7)", `/jobs/\u202egpj.tsniaga\u2066\u061c`},
	{"/jobs/שרת", "שרת/7", "/jobs/שרת"},
	{"/jobs/" + strings.Repeat("x", 4096), strings.Repeat("W", 4096), "xxxx"},
	{
		"/jobs" + strings.Repeat("/a-directory-below-another", 99), strings.Repeat("long-host.example.", 99) + "/7",
		"/a-directory-below-another/",
	},
	{
		"/jobs/<img src=x onerror=owned=1>", `<img src="http://foreign.example/x" onerror="owned=1">`,
		"/jobs/<img src=x onerror=owned=1>",
	},
	{
		`/jobs/"><svg onload=owned=1></script><script>owned=1<`,
		`"></bdi><script src="http://foreign.example/x"></script><script>owned=1</script>`, `</script><script>owned=1<`,
	},
	{"/jobs/two  blanks\u2028\u200b", "web1/42\n\t\x1b[31mfree\r\nweb2/7", `/jobs/two  blanks\u2028\u200b`},
	{
		"/jobs/Z" + strings.Repeat("\u0301\u0489\u0321", 99), "🦓👨‍👩‍👧Z" + strings.Repeat("\u0301\u0489\u0321", 60),
		"/jobs/Z",
	},
	{"/jobs/ ", "", "/jobs/ "},
}

// makeHostile creates the hostile locks, each with a holder, two waiters and a node of no known recipe, whose names are
// hostile as well. It returns a function that ends the holders.
func makeHostile(t *testing.T, servers string) (end func()) {
	t.Helper()
	c, err := conn.Dial(t.Context(), servers, conn.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it returns nil
	var holders []string
	for _, h := range hostile {
		require.NoError(t, c.CreateAll(t.Context(), h.path, nil))
		for i, kind := range []string{"lock-", "lock-", "lock-", "such-"} {
			node, err := c.Create(t.Context(), h.path+h.path[strings.LastIndexByte(h.path, '/'):]+kind, []byte(h.data),
				zk.FlagEphemeral|zk.FlagSequence)
			require.NoError(t, err)
			if i == 0 {
				holders = append(holders, node)
			}
		}
	}
	return func() {
		for _, node := range holders {
			require.NoError(t, c.Delete(t.Context(), node, -1))
		}
	}
}

// TestPage_HostileNames: what a name hides is visible, nothing in it runs, and it covers no other name, at both widths.
func TestPage_HostileNames(t *testing.T) {
	server := zkserver.Start(t)
	end := makeHostile(t, server.Addr())
	url, key, _ := serve(t, server.Addr(), "--ui-root=/jobs", "--allow-break", "--stuck=1h")
	end()
	answer, err := http.Get(url + "events") //nolint:noctx // the test ends it
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }() // it was only read
	event, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, event, `/jobs/\u202egpj.tsniaga`)
	require.NotContains(t, event, "\u202e")

	p := browse(t, "about:blank")
	var foreign atomic.Value // what the page has requested elsewhere
	require.NoError(t, chromedp.Listen(p.Context, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, url) && !strings.HasPrefix(e.Request.URL, "data:") {
				foreign.Store(e.Request.URL)
			}
		case *page.EventJavascriptDialogOpening:
			foreign.Store(e.Message)
		}
	}))
	harmless := func() {
		t.Helper()
		require.Nil(t, foreign.Load())
		require.Equal(t, "undefined", browser.Evaluate[string](p.Tab, `typeof owned`))
		require.Zero(t, p.count(`img, svg, script:not([src="app.js"])`))
		require.False(t, browser.Evaluate[bool](p.Tab,
			`/[\p{Bidi_Control}\p{Zl}\p{Zp}\u200b\x00-\x09\x0b-\x1f\x7f-\x9f]/u.test(document.documentElement.outerHTML)`))
	}
	p.Do(chromedp.Navigate(url))
	for _, width := range []int64{390, 1280} {
		p.Do(chromedp.EmulateViewport(width, 700))
		p.shows("#count", fmt.Sprint(len(hostile), " queues"))
		harmless()
		for _, h := range hostile {
			p.shows(".queue .path bdi", h.shown)
			p.shows("#changes bdi", h.shown)
		}
		p.fits(fmt.Sprint("hostile-closed-", width))
		p.fill("filter", "gpj")
		p.shows("#count", fmt.Sprintf("1 of %d queues", len(hostile)))
		p.fill("filter", "")
		browser.Evaluate[bool](p.Tab, `document.querySelectorAll('details').forEach((e) => { e.open = true; }); true`)
		p.Await(fmt.Sprintf(`document.querySelectorAll('.card').length === %d`, 3*len(hostile)))
		p.fits(fmt.Sprint("hostile-open-", width))
		for i := range hostile {
			p.click(fmt.Sprintf(".queue:nth-child(%d) .foreign button", i+1))
			p.shows("#doomed", "is not of a known recipe, at")
			require.True(t, browser.Evaluate[bool](p.Tab, `document.getElementById('break').scrollTop === 0`),
				"the dialog does not show its beginning")
			p.fits(fmt.Sprint("hostile-break-", i, "-", width))
			p.fill("key", key)
			p.click("#really")
			p.shows("#really", "Delete czxid")
			p.fits(fmt.Sprint("hostile-really-", i, "-", width))
			p.click("#cancel")
		}
		harmless()
		browser.Evaluate[bool](p.Tab, `document.querySelectorAll('details').forEach((e) => { e.open = false; }); true`)
		p.Await(`!document.querySelector('.card')`)
	}
}
