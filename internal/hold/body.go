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

// Both returns a context that carries first's values and ends when first or second does, with the same cause. Each of
// its methods checks both contexts, since a hold's context looks at the clock only when it is queried.
func Both(first, second context.Context) (context.Context, context.CancelCauseFunc) {
	inner, end := context.WithCancelCause(first)
	both := &bothContext{inner, first, second, end}
	both.look() // AfterFunc runs with a delay, during which the caller might send a request
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

// look ends b if first or second has ended. Once b has ended, it asks neither: such contexts nest, one for each lock of
// LockAll, and if each asked the next one several times, the calls would multiply.
func (b *bothContext) look() {
	if b.Context.Err() != nil {
		return
	}
	for _, ctx := range []context.Context{b.first, b.second} {
		if ctx.Err() != nil {
			b.end(context.Cause(ctx))
		}
	}
}

// Err reports a passed deadline as such. A context derived from this one reports a cancellation, with the same cause.
func (b *bothContext) Err() error {
	b.look()
	err := b.Context.Err()
	if err != nil && context.Cause(b.Context) == context.DeadlineExceeded { //nolint:errorlint // that of a context
		return context.DeadlineExceeded
	}
	return err
}

func (b *bothContext) Deadline() (time.Time, bool) {
	first, limited := b.first.Deadline()
	if second, ok := b.second.Deadline(); ok && (!limited || second.Before(first)) {
		return second, true
	}
	return first, limited
}

func (b *bothContext) Done() <-chan struct{} {
	b.look()
	return b.Context.Done()
}

// Value also checks both, because context.Cause reads the cause through it.
func (b *bothContext) Value(key any) any {
	b.look()
	return b.Context.Value(key)
}

// releaseTimeout is how long Do waits, at most until its context is done, for its contender to be deleted. The hold has
// ended by then, and the deletion, which takes a round trip, continues in the background.
const releaseTimeout = time.Second

var errNoFunction = errors.New("the function is nil: want one to run under the hold")

// Do acquires a hold and runs fn under it; see [Under].
//
// Errors: if fn is nil, in which case nothing is acquired; those of acquire; those of Under.
func Do(
	ctx context.Context,
	acquire func(context.Context) (*zkrecipes.Hold, error),
	fn func(context.Context, *zkrecipes.Hold) error,
) error {
	if fn == nil {
		return errNoFunction
	}
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return Under(ctx, h, fn)
}

// Under runs fn under h, waits for it to return, and releases h. fn's context ends when h or ctx does, whichever comes
// first. If fn panics, Under releases h and the panic continues.
//
// Errors: fn's error, joined with a *LostError if h was lost before fn returned. If fn's error merely reports that its
// context ended, only its text is kept alongside the loss.
func Under(ctx context.Context, h *zkrecipes.Hold, fn func(context.Context, *zkrecipes.Hold) error) (err error) {
	inside, end := Both(h.Context(), ctx)
	var cause error // why inside had ended by the time fn returned
	defer func() {  // runs even if fn panics
		end(zkrecipes.ErrReleased)
		waiting, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		_ = h.Release(waiting) // a slow deletion is not an error, nor is the end of ctx, which may be another hold's loss
		if left := h.Err(); errors.Is(left, zkrecipes.ErrLost) {
			err = withLoss(err, left, SaysEnded(err, cause))
		}
	}()
	err = fn(inside, h)
	cause = context.Cause(inside)
	// This includes the loss of a hold that ctx descends from.
	if errors.Is(cause, zkrecipes.ErrLost) && SaysEnded(err, cause) {
		err = withLoss(err, cause, true)
	}
	return err
}

// withLoss combines a function's error with the loss of its hold. If err only reports the end of a context, the result
// must not match context.Canceled: callers would mistake the loss for their own cancellation.
func withLoss(err, lost error, saysEnded bool) error {
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case saysEnded && cancelled && err == context.Canceled: //nolint:errorlint // itself
		return lost // the text adds nothing
	case saysEnded && cancelled:
		return fmt.Errorf("%v: %w", err, lost) //nolint:errorlint // printed, not matched
	case errors.Is(err, lost): // fn already reports it
		return err
	default:
		return errors.Join(err, lost)
	}
}

// SaysEnded reports whether err merely reports that a context ended with the given cause; a nil cause means that it has
// not ended. If err joins several errors, this must be true of each. Errors from this library are exempt, because they
// also name the reason: they only have to match the end.
func SaysEnded(err, cause error) bool {
	if err == nil || cause == nil {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // what err wraps is examined in turn
	case *session.OpError, *zkrecipes.WaitError, *zkrecipes.LostError:
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !SaysEnded(part, cause) })
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return SaysEnded(inner, cause)
		}
	}
	return slices.ContainsFunc(
		[]error{context.Canceled, context.DeadlineExceeded, cause, zkrecipes.ErrLost, zkrecipes.ErrFenced},
		func(end error) bool { return errors.Is(err, end) },
	)
}
