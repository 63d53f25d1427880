package znode

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Both returns a context with the values of the first, which ends with whichever of the two ends first, for its cause.
func Both(first, second context.Context) (context.Context, context.CancelCauseFunc) {
	both, end := context.WithCancelCause(first)
	if second.Err() != nil {
		end(context.Cause(second)) // at once: AfterFunc would take a moment, and something be sent meanwhile
	}
	stop := context.AfterFunc(second, func() { end(context.Cause(second)) })
	return both, func(cause error) {
		stop()
		end(cause)
	}
}

// farewell is how long Do waits for the removal of its contender. The removal goes on after that; with a server that
// answers it takes a round trip.
const farewell = time.Second

// Do runs fn under h, waits for it, and releases h. The context of fn ends with h or with ctx, whichever is first. A
// panic of fn releases, and goes on as a panic.
//
// Errors: that of fn, joined with a *LostError if h was lost before fn had returned.
func Do(ctx context.Context, h *zkrecipes.Hold, fn func(context.Context, *zkrecipes.Hold) error) (err error) {
	inside, end := Both(h.Context(), ctx)
	defer func() { // also when fn panics
		end(zkrecipes.ErrReleased)
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		// That the removal takes its time is none of the caller's business: the hold has ended.
		if left := h.Release(bye); errors.Is(left, zkrecipes.ErrLost) {
			err = errors.Join(err, left)
		}
	}()
	return fn(inside, h)
}
