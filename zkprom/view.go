package zkprom

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// Cache returns a cache's metrics under the given name. Register them, and unregister them when you close the cache.
//
// Errors: a nil cache.
func Cache(name string, c *cache.Cache) (prometheus.Collector, error) {
	if c == nil {
		return nil, errors.New("zkprom: the cache is nil: create one with cache.Tree or another constructor")
	}
	v := newView("cache", name, cacheNodes, cacheBytes, cachePending, cacheFailed)
	v.read = func() sample {
		now := c.View()
		return sample{now.Current, now.AsOf, []float64{
			float64(now.Nodes), float64(now.Bytes), float64(now.Pending),
			float64(now.Failed),
		}}
	}
	return v, nil
}

// Node returns a kept node's metrics under the given name. Register them, and unregister them when you close the
// node.
//
// Errors: a nil node.
func Node(name string, n *node.Node) (prometheus.Collector, error) {
	if n == nil {
		return nil, errors.New("zkprom: the node is nil: create one with node.New")
	}
	v := newView("node", name, nodePresent)
	v.read = func() sample {
		now := n.State()
		return sample{now.Current, now.AsOf, []float64{truth(now.Exists)}}
	}
	return v, nil
}

// Group returns a group's metrics under the given name. Pass it the views that [group.Group.Watch] returns, and loop
// over the views that Group returns instead. The metrics describe the most recent view that the loop received, and stop
// being current once the loop is over.
//
// Errors: nil views.
func Group(
	name string, views iter.Seq2[group.View, error],
) (prometheus.Collector, iter.Seq2[group.View, error], error) {
	return watched("group", name, views, func(now group.View) sample {
		return sample{now.Current, now.AsOf, []float64{float64(len(now.Members))}}
	}, groupMembers)
}

// Value is like [Group], for the views that [value.Value.Watch] returns.
func Value[T any](
	name string, views iter.Seq2[value.View[T], error],
) (prometheus.Collector, iter.Seq2[value.View[T], error], error) {
	return watched("value", name, views, func(now value.View[T]) sample {
		return sample{current: now.Current, asOf: now.AsOf}
	})
}

// sample is the state of a view at a scrape.
type sample struct {
	current bool
	asOf    time.Time // zero if no answer has agreed with the view yet
	more    []float64 // in the order of view.more
}

// quantity is a metric of some views.
type quantity struct{ name, help string }

var (
	cacheNodes   = quantity{"cache_nodes", "Nodes that the cache holds."}
	cacheBytes   = quantity{"cache_bytes", "Bytes of data and names that the cache holds."}
	cachePending = quantity{"cache_pending_parts", "Parts of nodes that have to be read or watched again."}
	cacheFailed  = quantity{"cache_failed_parts", "Parts of nodes whose last read failed."}
	nodePresent  = quantity{"node_present", "1 if the kept node existed and was ours when last seen, else 0."}
	groupMembers = quantity{"group_members", "Members of the group."}
)

// view is the collector of one view.
type view struct {
	read         func() sample
	current, age *prometheus.Desc
	more         []*prometheus.Desc
}

func newView(recipe, name string, more ...quantity) *view {
	of := prometheus.Labels{"recipe": recipe, "name": name}
	describe := func(q quantity) *prometheus.Desc { return prometheus.NewDesc(namespace+"_"+q.name, q.help, nil, of) }
	v := &view{
		current: describe(quantity{"view_current", "1 if the view is current, else 0."}),
		age:     describe(quantity{"view_age_seconds", "Time since the view was last known to match the server."}),
	}
	for _, q := range more {
		v.more = append(v.more, describe(q))
	}
	return v
}

// watched returns the collector of the views that a loop receives. The AsOf of a current view does not advance until
// the next view, so its age is reported as 0. After the loop, the age counts from its end.
func watched[V any](
	recipe, name string, views iter.Seq2[V, error], of func(V) sample, more ...quantity,
) (prometheus.Collector, iter.Seq2[V, error], error) {
	if views == nil {
		return nil, nil, fmt.Errorf("zkprom: the views of the %s are nil: want what Watch returns", recipe)
	}
	v := newView(recipe, name, more...)
	var last atomic.Pointer[sample]
	last.Store(&sample{})
	v.read = func() sample {
		now := *last.Load()
		if now.current {
			now.asOf = time.Now()
		}
		return now
	}
	return v, func(yield func(V, error) bool) {
		defer func() {
			final := v.read()
			final.current = false
			last.Store(&final)
		}()
		for seen, err := range views {
			if err == nil {
				now := of(seen)
				last.Store(&now)
			}
			if !yield(seen, err) {
				return
			}
		}
	}, nil
}

// Describe implements prometheus.Collector.
func (v *view) Describe(to chan<- *prometheus.Desc) {
	for _, d := range append([]*prometheus.Desc{v.current, v.age}, v.more...) {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (v *view) Collect(to chan<- prometheus.Metric) {
	now := v.read()
	to <- prometheus.MustNewConstMetric(v.current, prometheus.GaugeValue, truth(now.current))
	if !now.asOf.IsZero() {
		to <- prometheus.MustNewConstMetric(v.age, prometheus.GaugeValue, time.Since(now.asOf).Seconds())
	}
	for i, value := range now.more {
		to <- prometheus.MustNewConstMetric(v.more[i], prometheus.GaugeValue, value)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
