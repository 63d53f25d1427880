package zkprom

import (
	"fmt"
	"math"

	"github.com/zkrecipes/zkrecipes/internal/recipe"
)

// Option configures [New].
type Option func(*config) error

type config struct {
	paths                  bool
	maxNames               int
	acquire, hold, request []float64 // upper bounds of the buckets, in seconds
}

func newConfig(opts []Option) (config, error) {
	c := config{
		maxNames: 100,
		acquire:  []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		hold:     []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800, 7200, 43200, 86400},
		request:  []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}
	return c, recipe.Apply(&c, opts)
}

// WithPaths adds the label path, the path of the queue or of the shards, to the metrics of acquisitions, holds and
// shards; it is off by default. Use it if your program has a small, fixed set of paths.
func WithPaths() Option {
	return func(c *config) error {
		c.paths = true
		return nil
	}
}

// WithMaxNames sets how many combinations of recipe, name and path, and how many servers, can have metrics of their
// own. It must be 1 or more; the default is 100.
func WithMaxNames(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%d names: want 1 or more", n)
		}
		c.maxNames = n
		return nil
	}
}

// WithAcquireBuckets sets the upper bounds of the buckets of zkrecipes_acquire_seconds, in seconds; the default
// ranges from 1 ms to half an hour.
func WithAcquireBuckets(bounds ...float64) Option {
	return func(c *config) error { return setBuckets("acquire", &c.acquire, bounds) }
}

// WithHoldBuckets is like [WithAcquireBuckets], for zkrecipes_hold_seconds; the default ranges from 1 ms to a day.
func WithHoldBuckets(bounds ...float64) Option {
	return func(c *config) error { return setBuckets("hold", &c.hold, bounds) }
}

// WithRequestBuckets is like [WithAcquireBuckets], for zkrecipes_request_seconds; the default ranges from 0.5 ms to
// 10 seconds.
func WithRequestBuckets(bounds ...float64) Option {
	return func(c *config) error { return setBuckets("request", &c.request, bounds) }
}

func setBuckets(of string, to *[]float64, bounds []float64) error {
	if len(bounds) == 0 {
		return fmt.Errorf("%s buckets: want at least one bound", of)
	}
	for i := range bounds {
		if math.IsNaN(bounds[i]) || i > 0 && bounds[i-1] >= bounds[i] {
			return fmt.Errorf("%s buckets %v: want increasing bounds", of, bounds)
		}
	}
	*to = append([]float64(nil), bounds...)
	return nil
}
