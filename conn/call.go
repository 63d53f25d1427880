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

type mode bool

const (
	readOnly mode = false // may be repeated
	writing  mode = true  // must not be, if it may have been executed
)

// begin waits for the connection and starts f. An error says that nothing was sent.
func begin[T any](ctx context.Context, s *Session, op, path string, f func(*zk.Conn) (T, error)) (*call[T], error) {
	if err := s.awaitUp(ctx); err != nil {
		return nil, &OpError{op, path, err}
	}
	if ctx == s.ctx {
		// A goroutine of the session's, see Go: it waits for nothing but the answer and the end of the session, with
		// which the library's call ends too, see retire. So it needs no second one to wait for it.
		c := &call[T]{op: op, path: path, done: returned}
		c.value, c.err = f(s.zk)
		return c, nil
	}
	c := &call[T]{op: op, path: path, done: make(chan struct{})}
	if !s.core.start(func() {
		c.value, c.err = f(s.zk)
		close(c.done)
	}) {
		return nil, &OpError{op, path, zkrecipes.ErrClosed}
	}
	return c, nil
}

// returned is the done of a call that has come back.
var returned = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

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
	outcome, err := classify(c.err)
	switch outcome {
	case unsent:
		if over := s.Err(); over != nil {
			err = over // which is why it was not sent
		} else {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
	case unknown:
		err = unknownOutcome(err)
	case expired:
		s.end(lost(zkrecipes.LossExpired, time.Now(), err))
		err = s.Err()
	case refused:
	}
	return c.value, &OpError{c.op, c.path, err}
}

// NotExecuted reports that the request behind err certainly was not executed, for want of a connection or because the
// server sheds load, and may be sent again.
func NotExecuted(err error) bool { return errors.Is(err, errAgain) }

// retryRead says of an error of finish whether a read may be repeated in the same session.
func retryRead(err error) bool {
	if errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, errAgain) || errors.Is(err, zkrecipes.ErrUnknownOutcome)
}

// retryPause is for a throttled request, or a connection that is just going: not at once, and not for long.
const retryPause = 10 * time.Millisecond

// perform does one request. Reads are repeated until they are answered, writes as long as they were certainly not
// executed; both wait for the connection, within ctx and the session.
func perform[T any](ctx context.Context, s *Session, op, path string, m mode, f func(*zk.Conn) (T, error)) (T, error) {
	for {
		c, err := begin(ctx, s, op, path, f)
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
		case m == readOnly && errors.Is(err, zkrecipes.ErrUnknownOutcome):
		default:
			return v, err
		}
		if err := sleep(ctx, retryPause); err != nil {
			return v, &OpError{op, path, err}
		}
	}
}
