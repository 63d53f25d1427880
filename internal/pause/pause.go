// Package pause provides the pauses between failed attempts.
package pause

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Growing is a sequence of pauses that grow until Reset. Each is up to half shorter or longer at random, so that
// callers that failed together do not retry together. It must not be used concurrently.
type Growing = backoff.ExponentialBackOff

// New returns pauses that begin with first, and grow by the factor up to last. None of them is backoff.Stop.
func New(first, last time.Duration, factor float64) *Growing {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMaxInterval(last),
		backoff.WithMultiplier(factor), backoff.WithMaxElapsedTime(0))
}
