package playground

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
)

// largest is the maximum size of the compressed program, in bytes.
const largest = 4_000_000

// TestPage_IsThereBeforeTheProgram: the scenes can be read while the program is still loading.
func TestPage_IsThereBeforeTheProgram(t *testing.T) {
	directory, err := built()
	require.NoError(t, err)
	program, err := os.Stat(filepath.Join(directory, "playground.wasm.gz"))
	require.NoError(t, err)
	require.Less(t, program.Size(), int64(largest))
	t.Logf("the program has %.2f MB, compressed by gzip", float64(program.Size())/1e6)
	arrives := make(chan struct{})
	files := http.FileServer(http.Dir(directory))
	p := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filepath.Ext(r.URL.Path) == ".gz" {
			select {
			case <-arrives:
			case <-r.Context().Done():
			}
		}
		files.ServeHTTP(w, r)
	}), "")
	p.Await(
		`document.getElementById('sentence').textContent.includes('cut off') && document.querySelectorAll('#scenes a').length === 8`)
	p.Await(`performance.getEntriesByName('first-contentful-paint').length === 1`)
	require.False(t, browser.Evaluate[bool](p.Tab, `playground.ready`))
	require.True(t, browser.Evaluate[bool](p.Tab, `document.getElementById('loading').checkVisibility()`))
	close(arrives)
	p.Await(`playground.ready && !document.getElementById('loading').checkVisibility()`)
}

// wide lists elements that are cut off at a side. The list of scenes scrolls on a phone, and the picture clips old
// time.
const wide = `[...document.querySelectorAll('body *')].filter((e) => !e.closest('nav, #lanes') && e.checkVisibility() &&
	(e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < 0)).map((e) => e.outerHTML.slice(0, 80))`

// TestPage_IsFitToRead: on a phone and on a desktop, in light and in dark colors, nothing is cut off or faint.
func TestPage_IsFitToRead(t *testing.T) {
	p := open(t, nil, "")
	p.Await(`playground.ready`)
	// Everything that can be drawn: all processes, each in a different state.
	p.scene(
		`#recipe=mutex&n=8&rule=1&do=300.take.anna,600.take.ben,900.take.cleo,2000.cut.anna,1200.take.dora,11000.freeze.ben,2500.cut.dora,3000.stop.emil,3200.kill.finn,3500.lose.gina`)
	browser.Evaluate[bool](p.Tab, `playground.moveTo(12000); true`)
	for _, width := range []int64{390, 1280} {
		for _, dark := range []bool{false, true} {
			p.look(width, 900, dark)
			what := fmt.Sprint(width, dark)
			require.LessOrEqual(t, browser.Evaluate[int64](p.Tab, `document.documentElement.scrollWidth`), width, what)
			require.Empty(t, browser.Evaluate[[]string](p.Tab, wide), what)
			require.Empty(t, p.Faint(`#lanes .on`, `#lanes rect.holds, #lanes rect.reads`), what)
		}
	}
	require.GreaterOrEqual(t, browser.Evaluate[float64](p.Tab,
		`Math.min(...[...document.querySelectorAll('button, select, #who label')].filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().height))`),
		34.0, "a finger finds each button")
}

// TestPage_Keyboard: everything can be done with the keyboard, and the reader's actions are added to the link, which
// replays them.
func TestPage_Keyboard(t *testing.T) {
	p := open(t, nil, "#recipe=mutex&n=3")
	p.Await(`playground.ready`)
	browser.Evaluate[bool](p.Tab, `playground.play(false); true`)
	at := browser.Evaluate[float64](p.Tab, `playground.now`)
	keys := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			p.Do(chromedp.KeyEvent(key))
		}
	}
	move := func(ms int) {
		t.Helper()
		browser.Evaluate[bool](p.Tab, fmt.Sprintf(`playground.moveTo(playground.now + %d); true`, ms))
	}
	move(1000)
	keys("1", "t")
	move(1000)
	keys("2", "t")
	move(500)
	require.Equal(t, `anna,ben`, browser.Evaluate[string](p.Tab, `playground.view.Queue.map((c) => c.Name).join()`))
	keys("1", "c")
	move(500)
	require.True(t, browser.Evaluate[bool](p.Tab, `playground.view.Lanes[0].Cut`))
	keys(".")
	require.Greater(t, browser.Evaluate[float64](p.Tab, `playground.now`), at+3000)
	keys("c", "k")
	move(8000)
	require.Equal(t, "stopped,holds,idle", browser.Evaluate[string](p.Tab,
		`playground.view.Lanes.map((l) => l.State).join()`))
	now := browser.Evaluate[float64](p.Tab, `playground.now`)
	grants := func() (found []grant) {
		t.Helper()
		return browser.Evaluate[[]grant](p.Tab,
			`playground.view.Lanes.flatMap((l) => (l.Spans ?? []).map((s) => ({ Who: l.Name, Kind: s.Kind, Why: s.Why, From: s.From })))`)
	}
	before := grants()
	require.Len(t, before, 4)

	// Actions of one instant may happen in another order, and be served some milliseconds later.
	link := browser.Evaluate[string](p.Tab, `location.hash`)
	require.Contains(t, link, ".take.anna,")
	p.scene(link)
	browser.Evaluate[bool](p.Tab, fmt.Sprintf(`playground.moveTo(%f); true`, now))
	for i, g := range grants() {
		require.InDelta(t, before[i].From, g.From, 500)
		g.From = before[i].From
		require.Equal(t, before[i], g, "the link tells the same story")
	}

	// Tab reaches the scenes, the controls of time and the actions, and the focus is visible.
	reached := map[string]bool{}
	for range 60 {
		keys(kb.Tab)
		reached[browser.Evaluate[string](p.Tab,
			`document.activeElement.closest('nav, #time, #who, #actions, #story, form')?.id || document.activeElement.tagName`)] = true
	}
	for _, place := range []string{"scenes", "time", "who", "actions", "story"} {
		require.True(t, reached[place], "%s: %v", place, reached)
	}
	browser.Evaluate[bool](p.Tab, `document.activeElement.blur(); true`) // on a focused button, Space would press it
	keys(" ")
	p.Await(fmt.Sprintf(`playground.now > %f`, now)) // Space plays
}

// TestPage_SaysWhatIsWrong: with a link, and with a world that cannot exist.
func TestPage_SaysWhatIsWrong(t *testing.T) {
	p := open(t, nil, "#recipe=latch")
	p.Await(`document.getElementById('loading').textContent.includes('want mutex, rwlock')`)
	p.Do(chromedp.Click("#scenes a:nth-child(2)"))
	p.Await(`playground.ready && playground.now > 100`) // a scene starts by itself
	require.True(t, browser.Evaluate[bool](p.Tab,
		`document.querySelector('#scenes a:nth-child(2)').hasAttribute('aria-current')`))
}

// grant is a span in which a process waits or holds.
type grant struct {
	Who, Kind, Why string
	From           float64
}
