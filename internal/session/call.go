package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// call is a request on its way, whoever waits for it; it ends at the latest when its session does.
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
	readOnly mode = false // may be repeated
	writing  mode = true  // must not be, if it may have been executed
)

// launch sends the request, at once if it can. Otherwise it waits for the connection, and sends it on a goroutine that does
// not care for ctx, since the connection may not take it: one of the session's own, see Go, will do. An error says that
// nothing was sent.
func launch[T any](ctx context.Context, s *Session, c *call[T], sent func(), requests ...request) error {
	for _, r := range requests {
		if err := checkSize(c.op, c.path, len(r.frame)); err != nil {
			return err
		}
	}
	if ctx.Err() == nil && s.sendNow(sent, requests) {
		return nil
	}
	if err := s.awaitUp(ctx); err != nil {
		return &OpError{c.op, c.path, err}
	}
	if ctx == s.ctx {
		s.send(sent, requests)
	} else if !s.core.start(func() { s.send(sent, requests) }) {
		return &OpError{c.op, c.path, zkrecipes.ErrClosed}
	}
	return nil
}

// awaitUp waits until the session is connected. Errors: the session's own, or the cause of ctx.
func (s *session) awaitUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	up, over := s.up, s.lost
	s.mu.Unlock()
	if over != nil {
		return over
	}
	select {
	case <-up:
		return nil
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errAgain marks a request that certainly was not executed, and may be sent again.
var errAgain = errors.New("not executed")

// errUnanswered marks a read that may be repeated for want of an answer.
var errUnanswered = errors.New("no answer")

// finish waits for the call. The errors of a write match ErrUnknownOutcome if it may have been executed, also when ctx ended
// first: then the call goes on, and the caller no longer knows.
func finish[T any](ctx context.Context, s *Session, c *call[T]) (T, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-s.Done():
	}
	select {
	case <-c.done: // an answer counts, whatever else has happened meanwhile
	default:
		var none T
		if err := s.Err(); err != nil {
			return none, &OpError{c.op, c.path, c.mode.unanswered(err)}
		}
		return none, &OpError{c.op, c.path, c.mode.unanswered(context.Cause(ctx))}
	}
	if c.err == nil {
		return c.value, nil
	}
	return c.value, s.failed(c.op, c.path, c.mode, c.err)
}

// unanswered says of why there is no answer what it means: of a write, that its outcome is unknown.
func (m mode) unanswered(why error) error {
	if m == writing {
		return unknownOutcome(why)
	}
	return why
}

// failed says of a call that has come back with an error what became of the request.
func (s *session) failed(op, path string, m mode, err error) error {
	switch outcomeOf(err) {
	case unsent:
		if over := s.Err(); over != nil {
			err = over // which is why it was not sent
		} else {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
	case unknown:
		if over := s.Err(); over != nil {
			err = over // which is why there is no answer
		} else if m == readOnly && !wire.ServerFault(err) && !errors.Is(err, wire.ErrGarbled) {
			err = fmt.Errorf("%w: %w", errUnanswered, err)
		}
		err = m.unanswered(err)
	case expired:
		s.end(lost(zkrecipes.LossExpired, time.Now(), err))
		err = s.Err()
	case refused:
	}
	return &OpError{op, path, err}
}

// NotExecuted reports that the request behind err certainly was not executed, for want of a connection or because the
// server sheds load, and may be sent again.
func NotExecuted(err error) bool { return errors.Is(err, errAgain) }

// retryRead says of an error of finish whether a read may be repeated in the same session.
func retryRead(err error) bool {
	if errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, errAgain) || errors.Is(err, errUnanswered)
}

// retryPause is for a throttled request, or a connection that is just going: not at once, and not for long.
const retryPause = 10 * time.Millisecond

// ask does one request, of which each try has its own. Reads are repeated until they are answered, writes as long as they
// were certainly not executed; both wait for the connection, within ctx and the session. sent, if not nil, is called
// before there is an answer.
func ask[T any](ctx context.Context, s *Session, op, path string, m mode, sent func(), requested func(done func(T, error)) request) (T, error) {
	for {
		c := newCall[T](op, path, m)
		if err := try(ctx, s, c, sent, requested); err != nil {
			var none T
			return none, err
		}
		v, err := finish(ctx, s, c)
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil || s.Err() != nil:
			return v, err
		case errors.Is(err, errAgain):
		case m == readOnly && retryRead(err):
		default:
			return v, err
		}
		if err := sleep(ctx, retryPause); err != nil {
			return v, &OpError{op, path, err}
		}
	}
}

func try[T any](ctx context.Context, s *Session, c *call[T], sent func(), requested func(done func(T, error)) request) error {
	if sent == nil {
		return launch(ctx, s, c, nil, requested(c.end))
	}
	sent = sync.OnceFunc(sent)
	return launch(ctx, s, c, sent, requested(func(v T, err error) {
		if err == nil || outcomeOf(err) == refused { // there is an answer
			sent() // who writes may not have come to it
		}
		c.end(v, err)
	}))
}
