// Package playground tests the page of docs/playground in a browser.
package playground

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// built is the directory of the page. All tests share it.
var built = sync.OnceValues(func() (string, error) {
	directory, err := os.MkdirTemp("", "playground")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("../../internal/playground/build.sh", directory).CombinedOutput()
	if err != nil {
		return directory, fmt.Errorf("%w: %s", err, out)
	}
	return directory, nil
})

// browser is a Chromium that all tests share. It is nil if there is none.
var browser = sync.OnceValues(func() (context.Context, context.CancelFunc) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute))...)
		return chromedp.NewContext(ctx)
	}
	return nil, func() {}
})

func TestMain(m *testing.M) {
	code := m.Run()
	_, stop := browser()
	stop()
	if directory, _ := built(); directory != "" {
		_ = os.RemoveAll(directory) // the system removes it, too
	}
	os.Exit(code)
}

// tab is the page in a browser.
type tab struct {
	*testing.T
	ctx context.Context
	url string
}

// open opens the page with a fragment in Chromium. Without one the test is skipped; with REQUIRE_REAL=1 it fails.
func open(t *testing.T, handler http.Handler, fragment string) *tab {
	t.Helper()
	parent, _ := browser()
	if parent == nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatal("no Chromium: apt-get install chromium")
		}
		t.Skip("no Chromium: apt-get install chromium")
	}
	directory, err := built()
	require.NoError(t, err)
	if handler == nil {
		handler = http.FileServer(http.Dir(directory))
	}
	require.NoError(t, chromedp.Do(parent)) // starts it
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(parent, *random+5*time.Minute) // a page that hangs
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx, url: server.URL + "/"}
	p.do(chromedp.Navigate(p.url + fragment))
	t.Cleanup(func() { require.Empty(t, evaluate[[]string](p, `playground.errors`), "the scripts of the page") })
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

// await waits until an expression is true.
func (p *tab) await(expression string) {
	p.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute)))
	require.NoError(p, err, expression)
}

// scene begins the world of a link, and stops its clock.
func (p *tab) scene(hash string) {
	p.Helper()
	evaluate[bool](p, fmt.Sprintf(`history.replaceState(null, '', %q); playground.begin().then(() => { playground.play(false); playground.mine = %q; }); true`, hash, hash))
	p.await(fmt.Sprintf(`playground.ready && playground.mine === %q`, hash))
}

// look sets the width of the window, and the colours that the page is asked for.
func (p *tab) look(width, height int64, dark bool) {
	p.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(p, err)
	p.do(chromedp.EmulateViewport(width, height))
	evaluate[bool](p, `playground.show(); true`)
}

// picture keeps what is seen in a directory, if one is named.
func (p *tab) picture(directory, name string) {
	p.Helper()
	if directory == "" {
		return
	}
	image, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(filepath.Join(directory, name+".png"), image, 0o644))
}

// PAGE_PICTURES=directory keeps what the tests see. PLAYGROUND_PICTURES=directory keeps the pictures of the documents.
var seen, shown = os.Getenv("PAGE_PICTURES"), os.Getenv("PLAYGROUND_PICTURES")
