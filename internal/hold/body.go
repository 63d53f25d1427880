package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
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

// releaseTimeout is how long Do waits for the deletion of its contender. The deletion takes a round trip, and
// continues after the timeout.
const releaseTimeout = time.Second

var errNoFunction = errors.New("the function is nil: want one to run under the hold")

// Do acquires, and runs fn under the hold; see [Under].
//
// Errors: a nil fn, and nothing was acquired; those of acquire; those of Under.
func Do(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error), fn func(context.Context, *zkrecipes.Hold) error) error {
	if fn == nil {
		return errNoFunction
	}
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return Under(ctx, h, fn)
}

// Under runs fn under h, waits for it, and releases h. The context of fn ends with h or with ctx, whichever is first.
// A panic of fn releases, and continues as a panic.
//
// Errors: that of fn, joined with a *LostError if h was lost before fn had returned. If the error of fn says no more than
// that its context had ended, only its text is left beside a loss.
func Under(ctx context.Context, h *zkrecipes.Hold, fn func(context.Context, *zkrecipes.Hold) error) (err error) {
	inside, end := Both(h.Context(), ctx)
	var cause error // why inside had ended when fn returned
	defer func() {  // also when fn panics
		end(zkrecipes.ErrReleased)
		waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		// A deletion that takes longer is not an error: the hold has ended.
		if left := h.Release(waiting); errors.Is(left, zkrecipes.ErrLost) {
			err = withLoss(err, left, SaysEnded(err, cause))
		}
	}()
	err = fn(inside, h)
	cause = context.Cause(inside)
	if errors.Is(cause, zkrecipes.ErrLost) && SaysEnded(err, cause) { // including the loss of a hold that ctx descends from
		err = withLoss(err, cause, true)
	}
	return err
}

// withLoss returns the error of a function together with the loss of its hold. An error that only reports the end of
// a context must not match context.Canceled: callers would mistake the loss for their own cancellation.
func withLoss(err, lost error, saysEnded bool) error {
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case saysEnded && cancelled && err == context.Canceled: //nolint:errorlint // itself
		return lost // there is no text worth keeping
	case saysEnded && cancelled:
		return fmt.Errorf("%v: %w", err, lost) //nolint:errorlint // printed, and not matched
	case errors.Is(err, lost): // fn has said it
		return err
	default:
		return errors.Join(err, lost)
	}
}

// SaysEnded reports whether err only reports that a context has ended for that cause, which is nil if it has not. If
// several errors are joined, each of them must. The errors of this library are excepted, because they also name the
// obstacle.
func SaysEnded(err, cause error) bool {
	if err == nil || cause == nil {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // what err wraps is looked at in its turn
	case *session.OpError, *zkrecipes.WaitError, *zkrecipes.LostError:
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !SaysEnded(part, cause) })
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return SaysEnded(inner, cause)
		}
	}
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, cause, zkrecipes.ErrLost, zkrecipes.ErrFenced},
		func(end error) bool { return errors.Is(err, end) })
}
