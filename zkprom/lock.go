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

// lock returns the metrics for a recipe, a name and a path, which it creates on first use.
func (c *Collector) lock(recipe, name, path string) *lock {
	of := labels{recipe: recipe, name: name}
	if c.config.paths {
		of.path = path
	}
	c.mu.RLock()
	l, ok := c.locks[of]
	c.mu.RUnlock()
	if ok {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.locks[of]; ok {
		return l
	}
	if len(c.locks) >= c.config.maxNames {
		of = labels{recipe: other, name: other}
		if c.config.paths {
			of.path = other
		}
		if l, ok := c.locks[of]; ok {
			return l
		}
	}
	l = c.newLock(of)
	c.locks[of] = l
	return l
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
