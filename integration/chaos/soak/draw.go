package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A curve is one figure over the accumulated time of the runs.
type curve struct {
	title   string
	color   string
	servers bool // reported by servers, which may not have answered
	at      func(Entry) float64
}

var curves = []curve{
	{
		"fenced sections, in thousands", "#2e9e5b", false,
		func(e Entry) float64 { return float64(e.Total.Sections+e.Total.Theirs) / 1e3 },
	},
	{"heap after a collection, MB", "#3b7dd8", false, func(e Entry) float64 { return float64(e.Heap) / 1e6 }},
	{"resident memory, MB", "#3b7dd8", false, func(e Entry) float64 { return float64(e.Resident) / 1e6 }},
	{"goroutines", "#8a6d00", false, func(e Entry) float64 { return float64(e.Goroutines) }},
	{"watches on all servers", "#5f6b7a", true, func(e Entry) float64 { return float64(e.Watches) }},
	{"nodes", "#5f6b7a", true, func(e Entry) float64 { return float64(e.Nodes) }},
}

// The place of a curve, in a picture of 960 by height.
const (
	width, left, right = 960, 60, 940
	tall, apart        = 70, 110
)

// Draw draws a journal as SVG: one curve below another, each from zero to its largest figure. A dashed line marks where
// a run continued the journal of another.
func Draw(entries []Entry) string {
	height := 50 + apart*len(curves)
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="Helvetica, Arial, sans-serif" font-size="13" role="img" aria-label="%s">`,
		width, height, width, height, caption(entries))
	p(`  <rect width="%d" height="%d" fill="#ffffff"/>`, width, height)
	p(`  <text x="20" y="28" font-size="16" font-weight="bold" fill="#222">%s</text>`, caption(entries))
	for i, c := range curves {
		c.draw(p, entries, 75+apart*i)
	}
	p(`</svg>`)
	return b.String()
}

func caption(entries []Entry) string {
	if len(entries) == 0 {
		return "An empty journal"
	}
	last := entries[len(entries)-1]
	return fmt.Sprintf("%d fenced sections and %d faults in %v: %d overlaps, %d lost updates",
		last.Total.Sections+last.Total.Theirs, last.Total.Faults,
		last.Ran.Round(time.Second), last.Total.Overlaps, last.Total.Lost)
}

func (c curve) draw(p func(string, ...any), entries []Entry, top int) {
	most, end := 0.0, time.Duration(1)
	for _, e := range entries {
		most, end = max(most, c.at(e)), max(end, e.Ran)
	}
	x := func(e Entry) float64 { return left + float64(right-left)*float64(e.Ran)/float64(end) }
	p(`  <text x="%d" y="%d" font-weight="bold" fill="#444">%s</text>`, left, top-8, c.title)
	p(`  <g stroke="#dddddd"><line x1="%d" y1="%d" x2="%d" y2="%d"/><line x1="%d" y1="%d" x2="%d" y2="%d"/></g>`, left,
		top, right, top, left, top+tall, right, top+tall)
	p(`  <g fill="#444" text-anchor="end"><text x="%d" y="%d">%.4g</text><text x="%d" y="%d">0</text></g>`, left-6, top+10,
		most, left-6, top+tall)
	for i, e := range slices.Backward(entries) {
		if i > 0 && entries[i-1].Run != e.Run {
			p(`  <line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dddddd" stroke-dasharray="4"/>`, x(e), top, x(e), top+tall)
		}
	}
	var points []string
	for _, e := range entries {
		if c.servers && e.Nodes == 0 {
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(e), float64(top+tall)-tall*c.at(e)/max(most, 1e-9)))
	}
	p(`  <polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, strings.Join(points, " "), c.color)
}
