package znode

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Both returns a context with the values of the first, which ends with whichever of the two ends first, for its cause.
// It asks both whenever it is asked: the context of a hold looks at the clock then.
func Both(first, second context.Context) (context.Context, context.CancelCauseFunc) {
	inner, end := context.WithCancelCause(first)
	both := &bothContext{inner, first, second, end}
	both.look() // AfterFunc would take a moment, and a request be sent meanwhile
	stop := context.AfterFunc(second, func() { end(context.Cause(second)) })
	return both, func(cause error) {
		stop()
		end(cause)
	}
}

// bothContext is the context that Both returns.
type bothContext struct {
	context.Context
	first, second context.Context
	end           context.CancelCauseFunc
}

func (b *bothContext) look() {
	for _, ctx := range []context.Context{b.first, b.second} {
		if ctx.Err() != nil {
			b.end(context.Cause(ctx))
		}
	}
}

func (b *bothContext) Err() error {
	b.look()
	return b.Context.Err()
}

func (b *bothContext) Done() <-chan struct{} {
	b.look()
	return b.Context.Done()
}

// Value is also how context.Cause finds the cause.
func (b *bothContext) Value(key any) any {
	b.look()
	return b.Context.Value(key)
}

// releaseTimeout is how long Do waits for the removal of its contender. The removal goes on after that; with a server that
// answers it takes a round trip.
const releaseTimeout = time.Second

// Do runs fn under h, waits for it, and releases h. The context of fn ends with h or with ctx, whichever is first. A
// panic of fn releases, and goes on as a panic.
//
// Errors: that of fn, joined with a *LostError if h was lost before fn had returned.
func Do(ctx context.Context, h *zkrecipes.Hold, fn func(context.Context, *zkrecipes.Hold) error) (err error) {
	inside, end := Both(h.Context(), ctx)
	defer func() { // also when fn panics
		end(zkrecipes.ErrReleased)
		waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		// That the removal takes its time is none of the caller's business: the hold has ended.
		if left := h.Release(waiting); errors.Is(left, zkrecipes.ErrLost) {
			err = errors.Join(err, left)
		}
	}()
	return fn(inside, h)
}
