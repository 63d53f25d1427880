package hold

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Both returns a context with the values of first. It ends when first or second ends, with the same cause. Whenever it is
// asked, it asks both, since the context of a hold looks at the clock only when it is asked.
func Both(first, second context.Context) (context.Context, context.CancelCauseFunc) {
	inner, end := context.WithCancelCause(first)
	both := &bothContext{inner, first, second, end}
	both.look() // AfterFunc takes a moment, and the caller might send a request meanwhile
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

// releaseTimeout is how long Do waits for the deletion of its contender. The deletion takes a round trip, and goes on after
// the timeout.
const releaseTimeout = time.Second

// Do acquires, and runs fn under the hold; see [Under].
//
// Errors: a nil fn, and nothing was acquired; those of acquire; those of Under.
func Do(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error), fn func(context.Context, *zkrecipes.Hold) error) error {
	if fn == nil {
		return errors.New("the function is nil: want one to run under the hold")
	}
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return Under(ctx, h, fn)
}

// Under runs fn under h, waits for it, and releases h. The context of fn ends with h or with ctx, whichever is first. A
// panic of fn releases, and goes on as a panic.
//
// Errors: that of fn, joined with a *LostError if h was lost before fn had returned.
func Under(ctx context.Context, h *zkrecipes.Hold, fn func(context.Context, *zkrecipes.Hold) error) (err error) {
	inside, end := Both(h.Context(), ctx)
	defer func() { // also when fn panics
		end(zkrecipes.ErrReleased)
		waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		// A deletion that takes longer is no error: the hold has ended.
		if left := h.Release(waiting); errors.Is(left, zkrecipes.ErrLost) && !errors.Is(err, left) { // fn may have said it
			err = errors.Join(err, left)
		}
	}()
	return fn(inside, h)
}
