package services

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// drawing is a picture of the panels of a dashboard over one run.
type drawing struct {
	from, to time.Time
	marks    []mark
	parts    []part
}

// mark is the time of a fault.
type mark struct {
	name string
	at   time.Time
}

// part is one panel.
type part struct {
	title, kind, unit string
	lines             []curve
}

type curve struct {
	legend  string
	samples []sample
}

var variable = regexp.MustCompile(`{{(\w+)}}`)

// add adds a series, under the legend that the dashboard gives it.
func (p *part) add(legend string, s series) {
	legend = variable.ReplaceAllStringFunc(legend, func(v string) string { return s.labels[strings.Trim(v, "{}")] })
	p.lines = append(p.lines, curve{strings.Join(strings.Fields(legend), " "), s.samples})
}

// The sizes of a panel, in pixels.
const (
	width, height            = 580, 210
	left, right, top, bottom = 50, 10, 34, 50
	legendWidth              = 6.2 // of a character
)

var (
	colors = []string{
		"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
		"#bcbd22", "#17becf",
	}
	states = []struct{ name, color string }{
		{"closed", "#bbb"},
		{"connecting", "#e5c700"},
		{"connected", "#56a64b"},
		{"suspended", "#ff9830"},
		{"lost", "#e02f44"},
	}
)

// svg draws the panels in two columns.
func (d *drawing) svg() string {
	var b strings.Builder
	rows := (len(d.parts) + 1) / 2
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="11">`+
			"\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", 2*width, rows*height)
	for i, p := range d.parts {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%2*width, i/2*height)
		d.panel(&b, p)
		b.WriteString("</g>\n")
	}
	return b.String() + "</svg>\n"
}

func (d *drawing) x(at time.Time) float64 {
	return left + (width-left-right)*at.Sub(d.from).Seconds()/d.to.Sub(d.from).Seconds()
}

// panel draws one panel, with the axis of time and the faults.
func (d *drawing) panel(b *strings.Builder, p part) {
	fmt.Fprintf(b, `<text x="8" y="16" font-weight="bold">%s</text>`+"\n", html.EscapeString(p.title))
	for _, m := range d.marks {
		fmt.Fprintf(b,
			`<path d="M%.1[1]f %[2]dV%[3]d" stroke="#c33" stroke-dasharray="3 3"/><text x="%.1[1]f" y="%[4]d" fill="#c33" font-size="9">%[5]s</text>`+"\n",
			d.x(m.at), top, height-bottom, top-3, m.name)
	}
	for at := time.Duration(0); at <= d.to.Sub(d.from); at += 20 * time.Second {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#666" font-size="9" text-anchor="middle">%v</text>`+"\n",
			d.x(d.from.Add(at)), height-bottom+12, at)
	}
	if p.kind == "state-timeline" {
		d.timeline(b, p)
		return
	}
	d.graph(b, p)
}

// timeline draws a bar for each series, in the colors of the states.
func (d *drawing) timeline(b *strings.Builder, p part) {
	bar := float64(height-top-bottom) / float64(len(p.lines))
	second := (width - left - right) / d.to.Sub(d.from).Seconds()
	slices.SortFunc(p.lines, func(a, b curve) int { return strings.Compare(a.legend, b.legend) })
	for i, l := range p.lines {
		y := top + bar*float64(i)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-6, y+bar/2+4,
			html.EscapeString(l.legend))
		for _, s := range l.samples {
			if d.x(s.at) >= left {
				fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", d.x(s.at), y+2, second+.1,
					bar-4, states[int(s.value)].color)
			}
		}
	}
	for i, s := range states {
		fmt.Fprintf(b,
			`<rect x="%[1]d" y="%[2]d" width="9" height="9" fill="%[3]s"/><text x="%[4]d" y="%[5]d" font-size="10">%[6]s</text>`+
				"\n",
			left+90*i, height-31, s.color, left+90*i+13, height-23, s.name)
	}
}

// graph draws a line for each series, with a scale and a legend.
func (d *drawing) graph(b *strings.Builder, p part) {
	most := 0.0
	for _, l := range p.lines {
		for _, s := range l.samples {
			if !math.IsNaN(s.value) {
				most = max(most, s.value)
			}
		}
	}
	most = nice(most)
	y := func(v float64) float64 { return height - bottom - (height-top-bottom)*v/most }
	for i := range 3 {
		v := most * float64(i) / 2
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" fill="#666" text-anchor="end">%s</text>`+
			"\n",
			left, y(v), width-right, left-5, y(v)+4, label(v, p.unit))
	}
	x, line := float64(left), 0
	for i, l := range p.lines {
		color := colors[i%len(colors)]
		var path strings.Builder
		last := time.Time{}
		for _, s := range l.samples {
			if math.IsNaN(s.value) || d.x(s.at) < left {
				continue
			}
			how := "L"
			if s.at.Sub(last) > 1500*time.Millisecond {
				how = "M"
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="1.6" fill="%s"/>`+"\n", d.x(s.at), y(s.value), color)
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", how, d.x(s.at), y(s.value))
			last = s.at
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path.String(), color)
		if space := legendWidth*float64(len(l.legend)) + 10; x+space > width-right {
			x, line = left, line+1
		}
		if line < 3 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" font-size="10">%s</text>`+"\n", x, height-25+line*11, color,
				html.EscapeString(l.legend))
		}
		x += legendWidth*float64(len(l.legend)) + 10
	}
}

// nice rounds the upper end of a scale up to 1, 2 or 5 times a power of ten.
func nice(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, of := range []float64{1, 2, 5} {
		if most <= of*power {
			return of * power
		}
	}
	return 10 * power
}

func label(v float64, unit string) string {
	switch unit {
	case "s":
		return fmt.Sprint(time.Duration(v * float64(time.Second)))
	case "percentunit":
		return fmt.Sprintf("%.0f %%", 100*v)
	case "reqps":
		return fmt.Sprintf("%g/s", v)
	default:
		return fmt.Sprintf("%g", v)
	}
}
