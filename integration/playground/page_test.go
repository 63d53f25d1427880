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
)

// largest is how many bytes the program may have, compressed.
const largest = 4_000_000

// TestPage_IsThereBeforeTheProgram: the scenes can be read while the program is still on its way.
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
	p.await(`document.getElementById('sentence').textContent.includes('cut off') && document.querySelectorAll('#scenes a').length === 8`)
	p.await(`performance.getEntriesByName('first-contentful-paint').length === 1`)
	require.False(t, evaluate[bool](p, `playground.ready`))
	require.True(t, evaluate[bool](p, `document.getElementById('loading').checkVisibility()`))
	close(arrives)
	p.await(`playground.ready && !document.getElementById('loading').checkVisibility()`)
}

// faint lists visible texts whose contrast is below what readers need (WCAG: 4.5 to 1), with the contrast. Texts of the picture
// stand on the panel, but for those on a bar.
const faint = `{
	const light = (rgb) => {
		const [r, g, b] = rgb.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const behind = (e) => {
		if (e.matches('#lanes .on')) return getComputedStyle(document.querySelector('#lanes rect.holds, #lanes rect.reads')).color;
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

// wide lists elements that are cut off at a side. The list of scenes scrolls on a telephone, and the picture cuts time off.
const wide = `[...document.querySelectorAll('body *')].filter((e) => !e.closest('nav, #lanes') && e.checkVisibility() &&
	(e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < 0)).map((e) => e.outerHTML.slice(0, 80))`

// TestPage_IsFitToRead: on a telephone and on a desk, by day and by night, nothing is cut off or faint.
func TestPage_IsFitToRead(t *testing.T) {
	p := open(t, nil, "")
	p.await(`playground.ready`)
	// Everything that can be drawn: all are here, and each in another state.
	p.scene(`#recipe=mutex&n=8&rule=1&do=300.take.anna,600.take.ben,900.take.cleo,2000.cut.anna,1200.take.dora,11000.freeze.ben,2500.cut.dora,3000.stop.emil,3200.kill.finn,3500.lose.gina`)
	evaluate[bool](p, `playground.moveTo(12000); true`)
	for _, width := range []int64{390, 1280} {
		for _, dark := range []bool{false, true} {
			p.look(width, 900, dark)
			what := fmt.Sprint(width, dark)
			require.LessOrEqual(t, evaluate[int64](p, `document.documentElement.scrollWidth`), width, what)
			require.Empty(t, evaluate[[]string](p, wide), what)
			require.Empty(t, evaluate[[]string](p, faint), what)
			p.picture(seen, fmt.Sprintf("fit-%d-%v", width, map[bool]string{false: "light", true: "dark"}[dark]))
		}
	}
	require.GreaterOrEqual(t, evaluate[float64](p, `Math.min(...[...document.querySelectorAll('button, select, #who label')].filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().height))`),
		34.0, "a finger finds each button")
}

// TestPage_Keyboard: the keyboard does all, and what the reader does is in the link: it plays the same again.
func TestPage_Keyboard(t *testing.T) {
	p := open(t, nil, "#recipe=mutex&n=3")
	p.await(`playground.ready`)
	evaluate[bool](p, `playground.play(false); true`)
	at := evaluate[float64](p, `playground.now`)
	keys := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			p.do(chromedp.KeyEvent(key))
		}
	}
	move := func(ms int) {
		t.Helper()
		evaluate[bool](p, fmt.Sprintf(`playground.moveTo(playground.now + %d); true`, ms))
	}
	move(1000)
	keys("1", "t")
	move(1000)
	keys("2", "t")
	move(500)
	require.Equal(t, `anna,ben`, evaluate[string](p, `playground.view.Queue.map((c) => c.Name).join()`))
	keys("1", "c")
	move(500)
	require.True(t, evaluate[bool](p, `playground.view.Lanes[0].Cut`))
	keys(".")
	require.Greater(t, evaluate[float64](p, `playground.now`), at+3000)
	keys("c", "k")
	move(8000)
	require.Equal(t, "stopped,holds,idle", evaluate[string](p, `playground.view.Lanes.map((l) => l.State).join()`))
	now := evaluate[float64](p, `playground.now`)
	grants := func() (found []grant) {
		t.Helper()
		return evaluate[[]grant](p, `playground.view.Lanes.flatMap((l) => (l.Spans ?? []).map((s) => ({ Who: l.Name, Kind: s.Kind, Why: s.Why, From: s.From })))`)
	}
	before := grants()
	require.Len(t, before, 4)

	// What happens in one instant may happen in another order, and be served some milliseconds later.
	link := evaluate[string](p, `location.hash`)
	require.Contains(t, link, ".take.anna,")
	p.scene(link)
	evaluate[bool](p, fmt.Sprintf(`playground.moveTo(%f); true`, now))
	for i, g := range grants() {
		require.InDelta(t, before[i].From, g.From, 500)
		g.From = before[i].From
		require.Equal(t, before[i], g, "the link tells the same story")
	}

	// Tab reaches the scenes, the time and the hands; the focus is seen.
	reached := map[string]bool{}
	for range 60 {
		keys(kb.Tab)
		reached[evaluate[string](p, `document.activeElement.closest('nav, #time, #who, #actions, #story, form')?.id || document.activeElement.tagName`)] = true
	}
	for _, place := range []string{"scenes", "time", "who", "actions", "story"} {
		require.True(t, reached[place], "%s: %v", place, reached)
	}
	evaluate[bool](p, `document.activeElement.blur(); true`) // on a button, Space presses that
	keys(" ")
	p.await(fmt.Sprintf(`playground.now > %f`, now)) // Space plays
}

// TestPage_SaysWhatIsWrong: with a link, and with a world that cannot be.
func TestPage_SaysWhatIsWrong(t *testing.T) {
	p := open(t, nil, "#recipe=latch")
	p.await(`document.getElementById('loading').textContent.includes('want mutex, rwlock')`)
	p.do(chromedp.Click("#scenes a:nth-child(2)"))
	p.await(`playground.ready && playground.now > 100`) // a scene plays by itself
	require.True(t, evaluate[bool](p, `document.querySelector('#scenes a:nth-child(2)').hasAttribute('aria-current')`))
}

// grant is a time in which a process waits or holds.
type grant struct {
	Who, Kind, Why string
	From           float64
}
