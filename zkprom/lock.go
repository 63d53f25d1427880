package zkprom

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// labels distinguish one lock, semaphore or election from the others.
type labels struct{ recipe, name, path string }

// other is the name for everything beyond the limit of names.
const other = "(other)"

// lock has the metrics of one lock, semaphore or election.
type lock struct {
	values  []string // label values
	waiting prometheus.Gauge
	granted prometheus.Observer
	held    prometheus.Observer
	holds   prometheus.Gauge

	mu         sync.Mutex
	validUntil map[string]func() time.Time // of the holds, by the paths of their contenders
}

// labelsOf returns the labels for a recipe, a name and a path.
func (c *Collector) labelsOf(recipe, name, path string) labels {
	if !c.config.paths {
		path = ""
	}
	return labels{recipe: recipe, name: name, path: path}
}

// bounded returns the metrics for labels, which it creates on first use. Beyond the limit, all labels share those of
// rest.
func bounded[M any](all map[labels]M, most int, of, rest labels, create func(labels) M) M {
	m, ok := all[of]
	if !ok && len(all) >= most {
		of = rest
		m, ok = all[of]
	}
	if !ok {
		m = create(of)
		all[of] = m
	}
	return m
}

// lock returns the metrics for a recipe, a name and a path, which it creates on first use.
func (c *Collector) lock(recipe, name, path string) *lock {
	of := c.labelsOf(recipe, name, path)
	c.mu.RLock()
	l, ok := c.locks[of]
	c.mu.RUnlock()
	if ok {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return bounded(c.locks, c.config.maxNames, of, c.labelsOf(other, other, other), c.newLock)
}

func (c *Collector) newLock(of labels) *lock {
	values := []string{of.recipe, of.name}
	if c.config.paths {
		values = append(values, of.path)
	}
	l := &lock{
		values:     values,
		waiting:    c.waiting.WithLabelValues(values...),
		held:       c.hold.WithLabelValues(values...),
		holds:      c.holds.WithLabelValues(values...),
		validUntil: make(map[string]func() time.Time),
	}
	l.granted = c.acquire.WithLabelValues(l.with("granted")...)
	for _, reason := range reasons {
		c.losses.WithLabelValues(l.with(reason.String())...) // so that it exists with 0
	}
	return l
}

// with returns the label values and one more.
func (l *lock) with(more string) []string { return append(slices.Clone(l.values), more) }

// deadline returns the nearest deadline of the holds; false if there is no hold.
func (l *lock) deadline() (nearest time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, validUntil := range l.validUntil {
		if until := validUntil(); !ok || until.Before(nearest) {
			nearest, ok = until, true
		}
	}
	return nearest, ok
}
