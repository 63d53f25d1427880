package zkprom

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// shards has the metrics of the shards below one path.
type shards struct {
	values []string // label values
	moves  prometheus.Counter
	waits  prometheus.Observer

	// Neither has keys: shards below two subs of a client may have the same path, member and name.
	mu     sync.Mutex
	owned  int
	waited []time.Time // starts of the current waits
}

// shardsOf returns the metrics for a name and a path, which it creates on first use.
func (c *Collector) shardsOf(name, path string) *shards {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bounded(c.shards, c.config.maxNames, c.labelsOf("", name, path), c.labelsOf("", other, other), c.newShards)
}

func (c *Collector) newShards(of labels) *shards {
	values := []string{of.name}
	if c.config.paths {
		values = append(values, of.path)
	}
	return &shards{
		values: values, moves: c.moves.WithLabelValues(values...), waits: c.waits.WithLabelValues(values...),
	}
}

func (c *Collector) traceShard(change shard.Change) {
	s := c.shardsOf(change.Name, change.Path)
	if change.To == shard.StateOwned {
		s.waits.Observe(change.Lasted.Seconds())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch change.From {
	case shard.StateOwned:
		s.owned--
	case shard.StateWaiting:
		began := change.At.Add(-change.Lasted)
		if i := slices.IndexFunc(s.waited, began.Equal); i >= 0 {
			s.waited = slices.Delete(s.waited, i, i+1)
		}
	case shard.StateNone:
	}
	switch change.To {
	case shard.StateOwned:
		s.owned++
	case shard.StateWaiting:
		s.waited = append(s.waited, change.At)
	case shard.StateNone:
	}
}

func (c *Collector) traceShardPlan(p shard.Plan) {
	c.shardsOf(p.Name, p.Path).moves.Add(float64(p.Moves))
}

// count returns how many shards are owned, how many are waited for, and when the longest of these waits began; zero if
// there is none.
func (s *shards) count() (owned, waiting int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.waited {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return s.owned, len(s.waited), since
}

func (c *Collector) collectShards(to chan<- prometheus.Metric) {
	c.mu.RLock()
	all := slices.Collect(maps.Values(c.shards))
	c.mu.RUnlock() // as in collectDeadlines
	for _, s := range all {
		owned, waiting, since := s.count()
		longest := 0.0
		if !since.IsZero() {
			longest = time.Since(since).Seconds()
		}
		to <- prometheus.MustNewConstMetric(c.shardsOwned, prometheus.GaugeValue, float64(owned), s.values...)
		to <- prometheus.MustNewConstMetric(c.shardsWaiting, prometheus.GaugeValue, float64(waiting), s.values...)
		to <- prometheus.MustNewConstMetric(c.longestWait, prometheus.GaugeValue, longest, s.values...)
	}
}
