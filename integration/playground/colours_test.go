package playground

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/lucasb-eyer/go-colorful"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
)

// What distinguishes two states: their mean colors, or their hatching. Both are in CIEDE2000 units, one of which is the
// smallest difference that a good eye sees.
const (
	apart   = 11.0 // between the mean colors
	hatched = 4.5  // between the mean distances of the pixels from the mean color, or from the pixels one line width below
)

// patch is a part of the page that shows a state. Places are in CSS pixels.
type patch struct {
	Row, State               string // a reader compares it with the others in its row
	Left, Top, Right, Bottom float64
	mean                     colorful.Color
	spread, steep            float64 // the mean distances of pixels from the mean, and from those one line width below
}

// find is a script that finds patches, each given as "row: state: selector". A trailing "lane" means the row of bars in
// a lane that has been idle for a while, with what is drawn over it.
const find = `(wanted) => wanted.map((entry) => {
	const [Row, State, selector, lane] = entry.split(': '), drawn = [...document.querySelectorAll(selector)].filter((e) => e.getBoundingClientRect().width > 2).at(-1);
	if (!drawn) throw new Error('not drawn: ' + entry);
	const now = document.querySelector('#lanes .now').getBoundingClientRect().left, stage = document.getElementById('stage').getBoundingClientRect();
	let { left, right, top, bottom } = drawn.getBoundingClientRect();
	left = Math.max(left, stage.left, right - 40); // enough to see the hatch
	if (lane) [left, right, top, bottom] = [now - 100, now - 70, top + 24, top + 42];
	const edge = (length) => Math.min(2, length / 5), x = edge(right - left), y = edge(bottom - top); // without it, and its dashes
	return { Row, State, Left: left + x, Top: top + y, Right: right - x, Bottom: bottom - y };
})`

// told are two moments that together show all states of a lane.
var told = []struct {
	link   string
	at     int
	states []string
}{
	{"#recipe=mutex&n=6&rule=1&do=300.take.anna,900.take.ben,1200.take.cleo,3500.cut.anna,5000.cut.dora,5000.freeze.emil,6000.take.finn,8000.release.finn", 12000, []string{
		`bar: waits: #lanes .waits[data-who=cleo]`,
		`bar: holds: #lanes .holds[data-who=ben]`,
		`bar: idle: #lanes g:first-of-type rect:nth-of-type(6): lane`,
		`bar: cut off: #lanes g:first-of-type rect:nth-of-type(4): lane`,
		`bar: frozen: #lanes g:first-of-type rect:nth-of-type(5): lane`,
		`rule: Curator holds: #lanes .rule[data-who=ben]`,
		`rule: Curator holds, and so does another: #lanes .overlap`,
		`requests: answered: #lanes .request[data-who=ben]`,
		`requests: changes a node: #lanes .change[data-who=finn]`,
		`requests: not answered: #lanes .lost[data-who=anna]`,
		`choice: idle: #who label:nth-child(1) i`,
		`choice: holds: #who label:nth-child(2) i`,
		`choice: waits: #who label:nth-child(3) i`,
	}},
	{"#recipe=rwlock&n=5&do=300.take.dora,2000.read.anna,2500.take.cleo,3000.release.dora", 9000, []string{
		`bar: reads: #lanes .reads[data-who=anna]`,
		`bar: holds: #lanes .holds[data-who=dora]`,
		`bar: waits: #lanes .waits[data-who=cleo]`,
		`bar: idle: #lanes g:first-of-type rect:nth-of-type(5): lane`,
		`choice: reads: #who label:nth-child(1) i`,
		`choice: waits: #who label:nth-child(3) i`,
		`choice: idle: #who label:nth-child(4) i`,
	}},
}

// TestColours_AreToldApart: readers who lack one kind of cone, and those who see no color, can distinguish all states
// of a lane.
func TestColours_AreToldApart(t *testing.T) {
	p := open(t, nil, "")
	p.Await(`playground.ready`)
	browser.Evaluate[bool](p.Tab,
		`document.head.insertAdjacentHTML('beforeend', '<style>#lanes text, #lanes .write { visibility: hidden }</style>'); true`)
	visions := []emulation.SetEmulatedVisionDeficiencyType{
		"none", "deuteranopia", "protanopia",
		"tritanopia", "achromatopsia",
	}
	found := map[string][]patch{} // by color scheme and kind of vision
	for _, moment := range told {
		p.scene(moment.link)
		states, err := json.Marshal(moment.states)
		require.NoError(t, err)
		for _, scheme := range []string{"light", "dark"} {
			p.look(390, 1000, scheme == "dark")
			p.Do(chromedp.EmulateViewport(390, 1000, chromedp.EmulateScale(scale)))
			browser.Evaluate[bool](p.Tab, fmt.Sprintf(`playground.moveTo(%d); true`, moment.at))
			patches := browser.Evaluate[[]patch](p.Tab, fmt.Sprintf(`(%s)(%s)`, find, states))
			for _, vision := range visions {
				_, err := chromedp.Call(p.Context, emulation.SetEmulatedVisionDeficiency,
					emulation.SetEmulatedVisionDeficiencyParams{Type: vision})
				require.NoError(t, err)
				before := patches[1].mean
				p.measure(patches)
				require.NotEqual(t, before, patches[1].mean, "%s changes nothing", vision)
				reader := scheme + ", " + vision.String()
				found[reader] = append(found[reader], patches...)
			}
		}
	}
	for reader, patches := range found {
		for i, a := range patches {
			for _, b := range patches[:i] {
				if a.Row != b.Row || a.State == b.State {
					continue
				}
				colours, hatches := 100*a.mean.DistanceCIEDE2000(b.mean),
					max(math.Abs(a.spread-b.spread), math.Abs(a.steep-b.steep))
				said := fmt.Sprintf("%-21s %s: %s, %s: colours %.1f apart, hatches %.1f", reader, a.Row, b.State,
					a.State, colours, hatches)
				t.Log(said)
				assert.True(t, colours >= apart || hatches >= hatched, said)
			}
		}
	}
}

// scale is how many screen pixels a CSS pixel has along one side.
const scale = 2

// measure reads the pixels of the patches.
func (p *tab) measure(patches []patch) {
	p.Helper()
	shot, err := chromedp.Run(p.Context, chromedp.CaptureScreenshot())
	require.NoError(p, err)
	screen, err := png.Decode(bytes.NewReader(shot))
	require.NoError(p, err)
	pixel := func(css float64) int { return int(math.Round(scale * css)) }
	for i := range patches {
		c := &patches[i]
		area := image.Rect(pixel(c.Left), pixel(c.Top), pixel(c.Right), pixel(c.Bottom))
		require.Truef(p, !area.Empty() && area.In(screen.Bounds()), "%+v", c)
		at := func(x, y int) colorful.Color {
			colour, _ := colorful.MakeColor(screen.At(x, y))
			return colour
		}
		n := float64(area.Dx() * area.Dy())
		each := func(see func(x, y int)) {
			for y := area.Min.Y; y < area.Max.Y; y++ {
				for x := area.Min.X; x < area.Max.X; x++ {
					see(x, y)
				}
			}
		}
		var l, a, b float64
		each(func(x, y int) {
			pl, pa, pb := at(x, y).Lab()
			l, a, b = l+pl/n, a+pa/n, b+pb/n
		})
		c.mean, c.spread, c.steep = colorful.Lab(l, a, b), 0, 0
		each(func(x, y int) {
			c.spread += 100 * at(x, y).DistanceCIEDE2000(c.mean) / n
			if above := y - 2*scale; above >= area.Min.Y {
				c.steep += 100 * at(x, y).DistanceCIEDE2000(at(x, above)) / n
			}
		})
	}
}
