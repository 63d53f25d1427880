// Package browser tests pages in Chromium.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// Patience is how long a test waits for a page, or for something on it, on a machine that also runs other tests.
const Patience = 5 * time.Minute

// Tab is a page in a browser of its own. A failure of the browser ends the test.
type Tab struct {
	*testing.T
	Context context.Context // for chromedp; it outlives the test, for its cleanups
}

// Open opens a page in Chromium, and closes the browser when the test ends. The test is skipped unless REQUIRE_REAL=1.
func Open(t *testing.T, url string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()),
		append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
			chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &Tab{t, ctx}
	require.NoError(t, chromedp.Do(ctx)) // starts the browser, which would otherwise end with the context of an action
	p.Do(chromedp.Navigate(url))
	return p
}

// chromium returns the path of the browser.
func chromium(t *testing.T) string {
	t.Helper()
	need.Asked(t, "a browser")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	need.Missing(t, "no Chromium: apt-get install chromium")
	return ""
}

// Do runs chromedp actions, for at most Patience.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context, Patience)
	defer cancel()
	require.NoError(p, chromedp.Do(ctx, actions...))
}

// Evaluate returns the value of an expression.
func Evaluate[T any](p *Tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context, Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(p, err)
	return value
}

// Await waits until an expression is true.
func (p *Tab) Await(expression string) {
	p.Helper()
	require.NoError(p, p.Poll(expression), expression)
}

// Poll waits until an expression is true, for at most Patience. A page that has just been loaded may abort a poll,
// which is then repeated.
func (p *Tab) Poll(expression string) (err error) {
	ctx, cancel := context.WithTimeout(p.Context, Patience) // the page's own limit does not pass while the page hangs
	defer cancel()
	for range 3 {
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(0)))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not so within %v: %w", Patience, err)
		}
		p.Logf("a poll has ended: %v", err)
	}
	return err
}

// Look sets the size of the window, and the requested color scheme of the page.
func (p *Tab) Look(width, height int64, dark bool) {
	p.Helper()
	_, err := chromedp.Call(p.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: Scheme(dark)}},
	})
	require.NoError(p, err)
	p.Do(chromedp.EmulateViewport(width, height))
}

// Scheme returns the name of the color scheme.
func Scheme(dark bool) string {
	if dark {
		return "dark"
	}
	return "light"
}

// Picture stores a screenshot in the directory, unless it is empty.
func (p *Tab) Picture(directory, name string) {
	p.Helper()
	if directory == "" {
		return
	}
	image, err := chromedp.Run(p.Context, chromedp.CaptureScreenshot())
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(filepath.Join(directory, name+".png"), image, 0o600))
}

// Faint lists visible texts whose contrast is lower than readers need (WCAG: 4.5 to 1), with the contrast. Texts that
// match the selector on are on a bar in the color of the first match of bar, the others on the background of a parent.
func (p *Tab) Faint(on, bar string) []string {
	p.Helper()
	return Evaluate[[]string](p, fmt.Sprintf(faint, on, bar))
}

const faint = `{
	const light = (rgb) => {
		const [r, g, b] = rgb.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const behind = (e) => {
		const on = %q;
		if (on && e.matches(on)) return getComputedStyle(document.querySelector(%q)).color;
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (!/, 0\)$/.test(color)) return color;
		}
		return 'rgb(255, 255, 255)';
	};
	const found = [];
	for (const e of document.querySelectorAll('body *')) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
		if (!own || !e.checkVisibility({ visibilityProperty: true }) || e.closest(':disabled, script, defs')) continue;
		const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
		const contrast = (a + .05) / (b + .05);
		if (contrast < 4.5) found.push(e.textContent + ': ' + contrast.toFixed(2));
	}
	found;
}`
