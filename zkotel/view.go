package zkotel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// Cache registers a cache with a meter under the given name. Unregister the result when you close the cache.
//
// Errors: a nil meter or cache; the meter's errors.
func Cache(meter metric.Meter, name string, c *cache.Cache) (metric.Registration, error) {
	if c == nil {
		return nil, errors.New("zkotel: the cache is nil: create one with cache.Tree or another constructor")
	}
	return observe(meter, "cache", name, func() sample {
		now := c.View()
		return sample{now.Current, now.AsOf, []int64{int64(now.Nodes), now.Bytes, int64(now.Pending), int64(now.Failed)}}
	}, quantity{"zkrecipes.cache.nodes", "Nodes that the cache holds.", "{node}"},
		quantity{"zkrecipes.cache.size", "Data and names that the cache holds.", "By"},
		quantity{"zkrecipes.cache.pending", "Parts of nodes that have to be read or watched again.", "{part}"},
		quantity{"zkrecipes.cache.failed", "Parts of nodes whose last read failed.", "{part}"})
}

// Node is like [Cache], for a kept node.
//
// Errors: a nil meter or node; the meter's errors.
func Node(meter metric.Meter, name string, n *node.Node) (metric.Registration, error) {
	if n == nil {
		return nil, errors.New("zkotel: the node is nil: create one with node.New")
	}
	return observe(meter, "node", name, func() sample {
		now := n.State()
		return sample{now.Current, now.AsOf, []int64{truth(now.Exists)}}
	}, quantity{"zkrecipes.node.present", "1 if the kept node existed and was ours when last seen, else 0.", "1"})
}

// Group registers a group with a meter under the given name. Pass it the views that [group.Group.Watch] returns, and
// loop over the views that Group returns instead. The metrics describe the most recent view that the loop received, and
// stop being current once the loop is over; unregister the result then.
//
// Errors: a nil meter; nil views; the meter's errors.
func Group(
	meter metric.Meter, name string, views iter.Seq2[group.View, error],
) (metric.Registration, iter.Seq2[group.View, error], error) {
	return watched(meter, "group", name, views, func(now group.View) sample {
		return sample{now.Current, now.AsOf, []int64{int64(len(now.Members))}}
	}, quantity{"zkrecipes.group.members", "Members of the group.", "{member}"})
}

// Value is like [Group], for the views that [value.Value.Watch] returns.
func Value[T any](
	meter metric.Meter, name string, views iter.Seq2[value.View[T], error],
) (metric.Registration, iter.Seq2[value.View[T], error], error) {
	return watched(meter, "value", name, views, func(now value.View[T]) sample {
		return sample{current: now.Current, asOf: now.AsOf}
	})
}

// watched observes the views that a loop receives. The AsOf of a current view does not advance until the next view, so
// its age is reported as 0. After the loop, the age counts from its end.
func watched[V any](
	meter metric.Meter, recipe, name string, views iter.Seq2[V, error], of func(V) sample, more ...quantity,
) (metric.Registration, iter.Seq2[V, error], error) {
	if views == nil {
		return nil, nil, fmt.Errorf("zkotel: the views of the %s are nil: want what Watch returns", recipe)
	}
	var last atomic.Pointer[sample]
	last.Store(&sample{})
	read := func() sample {
		now := *last.Load()
		if now.current {
			now.asOf = time.Now()
		}
		return now
	}
	registration, err := observe(meter, recipe, name, read, more...)
	if err != nil {
		return nil, nil, err
	}
	return registration, func(yield func(V, error) bool) {
		defer func() {
			over := read()
			over.current = false
			last.Store(&over)
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

// sample is the state of a view at one moment.
type sample struct {
	current bool
	asOf    time.Time // zero if no answer has agreed with the view yet
	more    []int64   // in the order of the quantities; empty before the first view of a loop
}

type quantity struct{ name, help, unit string }

func observe(
	meter metric.Meter, recipe, name string, read func() sample, more ...quantity,
) (metric.Registration, error) {
	if meter == nil {
		return nil, errors.New("zkotel: the meter is nil: want one of a MeterProvider")
	}
	age, err := meter.Float64ObservableGauge("zkrecipes.view.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the view was last known to match the server."))
	errs := []error{err}
	all := []metric.Observable{age}
	var gauges []metric.Int64ObservableGauge
	for _, q := range append([]quantity{{"zkrecipes.view.current", "1 if the view is current, else 0.", "1"}}, more...) {
		gauge, err := meter.Int64ObservableGauge(q.name, metric.WithDescription(q.help), metric.WithUnit(q.unit))
		errs, gauges, all = append(errs, err), append(gauges, gauge), append(all, gauge)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("zkotel: %w", err)
	}
	of := metric.WithAttributes(attribute.String("zkrecipes.recipe", recipe), attribute.String("zkrecipes.name", name))
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		now := read()
		if !now.asOf.IsZero() {
			to.ObserveFloat64(age, time.Since(now.asOf).Seconds(), of)
		}
		for i, value := range append([]int64{truth(now.current)}, now.more...) {
			to.ObserveInt64(gauges[i], value, of)
		}
		return nil
	}, all...)
}

func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
