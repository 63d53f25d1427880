package bubble

import (
	"context"
	"sync/atomic"
)

// Asked is a context that ends when its state is checked for the last of so many times, so a test can end it at each
// moment at which the code under test checks it.
type Asked struct {
	context.Context
	left  atomic.Int64
	end   context.CancelCauseFunc
	cause error
}

// EndWhenAsked returns a context that ends, for the cause, when it is asked the n-th time.
func EndWhenAsked(ctx context.Context, n int64, cause error) *Asked {
	a := &Asked{cause: cause}
	a.Context, a.end = context.WithCancelCause(ctx)
	a.left.Store(n)
	return a
}

// Err is counted, and ends the context at the n-th time.
func (a *Asked) Err() error {
	if a.left.Add(-1) == 0 {
		a.end(a.cause)
	}
	return a.Context.Err()
}

// Lives reports whether it was not asked so many times. It is over then.
func (a *Asked) Lives() bool {
	defer a.end(nil)
	return a.left.Load() > 0
}
