// Package pause has the pauses between attempts that fail.
package pause

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Growing are pauses that grow until they are Reset. Each is up to half shorter or longer at random, so that callers
// that failed together do not retry together. They are for one goroutine at a time.
type Growing = backoff.ExponentialBackOff

// New returns pauses that begin with first, and grow by the factor up to last. They never say stop.
func New(first, last time.Duration, factor float64) *Growing {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMaxInterval(last),
		backoff.WithMultiplier(factor), backoff.WithMaxElapsedTime(0))
}
