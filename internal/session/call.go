package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// call is a request in flight, whether or not a caller waits for it. It ends at most a second after its session, when
// the last connection is dropped.
type call[T any] struct {
	op, path string
	mode     mode
	done     chan struct{}
	value    T
	err      error
}

func newCall[T any](op, path string, m mode) *call[T] {
	return &call[T]{op: op, path: path, mode: m, done: make(chan struct{})}
}

func (c *call[T]) end(value T, err error) {
	c.value, c.err = value, err
	close(c.done)
}

type mode bool

const (
	repeatable mode = false // if it got no answer
	once       mode = true  // not repeated if it may have been executed
)

// launch waits for the connection and sends the request. If it returns an error, nothing was sent.
func launch[T any](ctx context.Context, s *Session, c *call[T], sent func(), r request) error {
	if err := s.ensemble.CheckSize(c.op, c.path, len(r.Frame)); err != nil {
		return err
	}
	if err := s.AwaitUp(ctx); err != nil {
		return &OpError{Op: c.op, Path: c.path, Err: err}
	}
	taken, err := s.slots.take(ctx, s.session)
	if err != nil {
		return &OpError{Op: c.op, Path: c.path, Err: err}
	}
	if taken {
		done := r.Done
		r.Done = func(got reply, err error) {
			s.slots.giveBack()
			done(got, err)
		}
	}
	if r.Ephemerals > 0 {
		if err := s.ephemerals.Admit(c.op, c.path, r.Ephemerals); err != nil {
			if taken {
				s.slots.giveBack()
			}
			return err
		}
	}
	s.Send(ctx, sent, []request{r})
	return nil
}

// ErrNoContext is the error of calls with a nil context.
var ErrNoContext = errors.New("the context is nil: want one such as context.Background()")

// AwaitUp waits until the session is connected. Errors: the session's own, or the cause of ctx.
func (s *session) AwaitUp(ctx context.Context) error {
	if ctx == nil {
		return ErrNoContext
	}
	if ctx.Err() != nil {
		return CauseOf(ctx)
	}
	up, ended := s.Connected()
	if ended != nil {
		return ended
	}
	select {
	case <-up:
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		return s.Explain(context.Cause(ctx))
	}
}

// errAgain marks a request that was certainly not executed and may be sent again.
var errAgain = errors.New("not executed")

// errUnanswered marks a read that got no answer and may be repeated.
var errUnanswered = errors.New("no answer")

// finish waits for the call. If a write may have been executed, its error matches ErrUnknownOutcome; package
// outcome lists what settles it. If ctx is done first, the call continues, but the caller does not learn its outcome.
func finish[T any](ctx context.Context, s *Session, c *call[T]) (T, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-s.Done():
	}
	select {
	// An answer counts even if ctx is done or the session has ended by now.
	case <-c.done:
	default:
		var none T
		if err := s.Err(); err != nil {
			return none, &OpError{Op: c.op, Path: c.path, Err: c.mode.unanswered(err)}
		}
		return none, &OpError{Op: c.op, Path: c.path, Err: c.mode.unanswered(s.ExplainUnanswered(context.Cause(ctx)))}
	}
	if c.err == nil {
		return c.value, nil
	}
	return c.value, s.failed(c.op, c.path, c.mode, c.err)
}

// unanswered turns the reason for a missing answer into the error of the call: for a write, the outcome is unknown.
func (m mode) unanswered(why error) error {
	if m == once {
		return outcome.InDoubt(why)
	}
	return why
}

// failed turns the error of a call into the error for its caller.
func (s *session) failed(op, path string, m mode, err error) error {
	switch outcome.Of(err) {
	case outcome.NotExecuted:
		if ended := s.Err(); ended != nil {
			err = ended // the reason it was not sent
		} else {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
	case outcome.Unknown:
		if ended := s.Err(); ended != nil {
			err = ended // the reason for the missing answer
		} else if m == repeatable && !wire.ServerFault(err) && !errors.Is(err, wire.ErrGarbled) &&
			!errors.Is(err, zkrecipes.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", errUnanswered, err)
		}
		err = m.unanswered(err)
	case outcome.Expired:
		s.Expired(err)
		err = s.Err()
	case outcome.Refused:
	}
	return &OpError{Op: op, Path: path, Err: err}
}

// NotExecuted reports whether the request behind err was certainly not executed, because there was no connection or the
// server was shedding load. It may be sent again.
func NotExecuted(err error) bool { return errors.Is(err, errAgain) }

// Repeatable reports whether a failed request may be sent again in the same session: a read that got no answer, or any
// request that was certainly not executed. A write in doubt never is, whatever else its error matches.
func Repeatable(err error) bool {
	return (errors.Is(err, errAgain) || errors.Is(err, errUnanswered)) && !errors.Is(err, zkrecipes.ErrUnknownOutcome)
}

// RetryPause is the pause before a request is sent again: to a server that sheds load, or while a connection is ending.
const RetryPause = 10 * time.Millisecond

// RemovalWait is how long a call that failed waits for its node to be removed if the next call would otherwise run into
// that node. While the client is connected, the removal takes a round trip or two.
const RemovalWait = 100 * time.Millisecond

// Repeats paces the retries of one call. While the server answers that it sheds load, or that the request has timed
// out, the pauses grow to about a second. After a lost connection the pause is RetryPause, since reconnecting takes its
// own time.
type Repeats struct{ growing *pause.Growing }

// Pause waits before the request is sent again; the previous try failed with the error why. Errors: the cause of ctx.
func (r *Repeats) Pause(ctx context.Context, why error) error {
	if !errors.As(why, new(zkrecipes.Code)) {
		r.growing = nil
		return Sleep(ctx, RetryPause)
	}
	return Sleep(ctx, nextPause(&r.growing))
}

// nextPause returns the next in a sequence of pauses that grow to about a second. It creates the sequence on first use,
// because most calls need none.
func nextPause(growing **pause.Growing) time.Duration {
	if *growing == nil {
		*growing = pause.New(RetryPause, time.Second, 2)
	}
	return (*growing).NextBackOff()
}

// Sleep waits for d, or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return CauseOf(ctx)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return CauseOf(ctx)
	}
}

// ask sends a request and waits for the answer. It repeats a read until it is answered, and a write as long as it was
// certainly not executed. Both wait for the connection as long as ctx and the session last. Each try is a separate
// request. sent, if not nil, is called for each of them, as by [lifetime.Lifetime.Send].
func ask[T any](
	ctx context.Context, s *Session, op, path string, m mode, sent func(), requested func(done func(T, error)) request,
) (T, error) {
	v, _, err := askLast(ctx, s, op, path, m, sent, requested)
	return v, err
}

// askLast is ask, and returns the last request, which may still be in flight if ctx was done before the answer. It is
// nil if none was sent, or if ctx was done between two tries.
func askLast[T any](
	ctx context.Context, s *Session, op, path string, m mode, sent func(), requested func(done func(T, error)) request,
) (T, *call[T], error) {
	var repeats Repeats
	for {
		c := newCall[T](op, path, m)
		if err := launch(ctx, s, c, sent, requested(c.end)); err != nil {
			var none T
			return none, nil, err
		}
		v, err := finish(ctx, s, c)
		if !Repeatable(err) {
			return v, c, err
		}
		if ended := repeats.Pause(ctx, err); ended != nil {
			return v, nil, &OpError{Op: op, Path: path, Err: WithReason(ended, errors.Unwrap(err))}
		}
	}
}
