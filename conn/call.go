package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// call is a request on its way; the library's calls know no context, so each has a goroutine that the client owns, and
// ends at the latest when its session does.
type call[T any] struct {
	op, path string
	done     chan struct{}
	value    T
	err      error
}

func newCall[T any](op, path string) *call[T] {
	return &call[T]{op: op, path: path, done: make(chan struct{})}
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

// begin waits for the connection and starts f. An error says that nothing was sent.
func begin[T any](ctx context.Context, s *Session, op, path string, f func(*zk.Conn) (T, error)) (*call[T], error) {
	c := newCall[T](op, path)
	return c, start(ctx, s, c, func() { c.end(f(s.zk)) })
}

// start waits for the connection and runs what makes the call, on a goroutine that does not care for ctx. One of the
// session's own, see Go, will do: it waits for nothing but the answer and the end of the session, with which the
// library's call ends too, see retire.
func start[T any](ctx context.Context, s *Session, c *call[T], run func()) error {
	if err := s.awaitUp(ctx); err != nil {
		return &OpError{c.op, c.path, err}
	}
	if ctx == s.ctx {
		run()
		return nil
	}
	if !s.core.start(run) {
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

// finish waits for the call. Its errors match ErrUnknownOutcome if the request may have been executed, also when ctx
// ended first: then the call goes on, and the caller no longer knows.
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
			return none, &OpError{c.op, c.path, unknownOutcome(err)}
		}
		return none, &OpError{c.op, c.path, unknownOutcome(context.Cause(ctx))}
	}
	if c.err == nil {
		return c.value, nil
	}
	return c.value, s.failed(c.op, c.path, c.err)
}

// failed says of a call that has come back with an error what became of the request.
func (s *session) failed(op, path string, err error) error {
	outcome, err := classify(err)
	switch outcome {
	case unsent:
		if over := s.Err(); over != nil {
			err = over // which is why it was not sent
		} else {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
	case unknown:
		if over := s.Err(); over != nil {
			err = over // which is why there is no answer
		}
		err = unknownOutcome(err)
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
	return errors.Is(err, errAgain) || errors.Is(err, zkrecipes.ErrUnknownOutcome) && !errors.Is(err, errGarbled)
}

// retryPause is for a throttled request, or a connection that is just going: not at once, and not for long.
const retryPause = 10 * time.Millisecond

// perform does one request. Reads are repeated until they are answered, writes as long as they were certainly not
// executed; both wait for the connection, within ctx and the session.
func perform[T any](ctx context.Context, s *Session, op, path string, m mode, f func(*zk.Conn) (T, error)) (T, error) {
	return repeat(ctx, s, op, path, m, func() (*call[T], error) { return begin(ctx, s, op, path, f) })
}

func repeat[T any](ctx context.Context, s *Session, op, path string, m mode, begin func() (*call[T], error)) (T, error) {
	for {
		c, err := begin()
		if err != nil {
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
