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

func TestMain(m *testing.M) {
	code := m.Run()
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
	directory, err := built()
	require.NoError(t, err)
	if handler == nil {
		handler = http.FileServer(http.Dir(directory))
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx, url: server.URL + "/"}
	p.do(chromedp.Navigate(p.url + fragment))
	t.Cleanup(func() {
		if p.ctx.Err() == nil {
			require.Empty(t, evaluate[[]string](p, `playground.errors`), "the scripts of the page")
		}
	})
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

// picture keeps what is seen. PAGE_PICTURES says where: make picture-playground keeps those that the documents show.
func (p *tab) picture(name string) {
	p.Helper()
	directory := os.Getenv("PAGE_PICTURES")
	if directory == "" {
		return
	}
	image, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(filepath.Join(directory, name+".png"), image, 0o600))
}
