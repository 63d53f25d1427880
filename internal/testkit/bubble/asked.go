package bubble

import (
	"context"
	"sync/atomic"
)

// Asked is a context that ends when its state has been checked a given number of times, so that a test can end it at
// each point where the code under test checks it.
type Asked struct {
	context.Context
	left  atomic.Int64
	end   context.CancelCauseFunc
	cause error
}

// EndWhenAsked returns a context that ends with the given cause at the n-th check.
func EndWhenAsked(ctx context.Context, n int64, cause error) *Asked {
	a := &Asked{cause: cause}
	a.Context, a.end = context.WithCancelCause(ctx)
	a.left.Store(n)
	return a
}

// Err counts the call, and ends the context at the n-th one.
func (a *Asked) Err() error {
	if a.left.Add(-1) == 0 {
		a.end(a.cause)
	}
	return a.Context.Err()
}

// Lives reports whether the context was checked fewer than n times, and ends it.
func (a *Asked) Lives() bool {
	defer a.end(nil)
	return a.left.Load() > 0
}
