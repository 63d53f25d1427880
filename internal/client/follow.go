package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// View is a value that was read from the servers, with its freshness.
type View[T any] struct {
	Value T
	zkrecipes.Freshness
}

// A Reading reads a value, with a watch that fires at its next change.
type Reading[T any] func(context.Context, *session.Session) (T, *session.Watch, error)

// Follow yields what the read function returns, and then each view that differs from the last, either in its value, as
// reported by same, or in whether it is current. It reads again once the watch has fired, but only when the caller
// requests the next view, so a slow caller gets the latest value and no backlog. Errors from the client name the path.
//
// In three cases Follow immediately yields the last value again, with Current false: the connection is lost, a read
// takes an eighth of the session timeout, or no server has answered for a whole session timeout. It continues in the
// next session.
//
// Iteration ends without an error when ctx is done or the caller breaks. If it cannot continue, the final value is an
// error.
func Follow[T any](
	ctx context.Context, c *Client, path string, read Reading[T], same func(a, b T) bool,
) iter.Seq2[View[T], error] {
	return func(yield func(View[T], error) bool) {
		if ctx == nil {
			yield(View[T]{}, &session.OpError{Op: "watch", Path: path, Err: session.ErrNoContext})
			return
		}
		tell := func(v View[T], err error) bool { return ctx.Err() == nil && yield(v, err) }
		f := &follower[T]{read: read, same: same, yield: tell}
		err := c.InSessions(ctx, "watch", path, func(s *session.Session) error {
			err := f.followIn(ctx, s)
			if errors.Is(err, errStopped) {
				return nil // even if the session has ended as well
			}
			return err
		})
		if err != nil {
			tell(View[T]{}, err)
		}
	}
}

var errStopped = errors.New("the caller has stopped")

// follower is one loop of Follow.
type follower[T any] struct {
	read  Reading[T]
	same  func(a, b T) bool
	yield func(View[T], error) bool
	told  *View[T]       // the last view yielded; nil at first
	age   *session.Age   // that of the read that was yielded last
	watch *session.Watch // that of the latest read
}

// tell yields a view, unless it is the same as the last. It returns errStopped if the caller breaks.
func (f *follower[T]) tell(now View[T]) error {
	news := f.told == nil || f.told.Current != now.Current || !f.same(f.told.Value, now.Value)
	f.told = &now
	if news && !f.yield(now, nil) {
		return errStopped
	}
	return nil
}

// outdated yields the last view again, marked as no longer current.
func (f *follower[T]) outdated() error {
	if f.told == nil || !f.told.Current {
		return nil
	}
	view := *f.told
	view.Current, view.AsOf = false, f.age.AsOf()
	return f.tell(view)
}

// followIn follows within one session.
func (f *follower[T]) followIn(ctx context.Context, s *session.Session) error {
	defer func() {
		s.Unwatch(f.watch)
		f.watch = nil // the next session has none
	}()
	for {
		value, w, err := f.readIn(ctx, s)
		if err == nil {
			err = f.tell(View[T]{value, zkrecipes.Freshness{Current: true, AsOf: f.age.AsOf()}})
		}
		if s.Err() != nil && !errors.Is(err, errStopped) {
			err = errors.Join(err, f.outdated())
		}
		if err != nil {
			return err
		}
		if err := f.wait(ctx, s, w); err != nil {
			return err
		}
	}
}

// wait waits until it is time to read again. If the last view stops being current, it yields that.
func (f *follower[T]) wait(ctx context.Context, s *session.Session, w *session.Watch) error {
	outdated, err := f.await(ctx, s, w)
	if outdated {
		return errors.Join(err, f.outdated())
	}
	return err
}

// await is wait without the yield. Unlike [session.Session.AwaitChange], it reports whether the last view has stopped
// being current.
func (f *follower[T]) await(ctx context.Context, s *session.Session, w *session.Watch) (outdated bool, err error) {
	defer s.Awaits()()
	recheck := time.After(s.RecheckAfter()) // an event may be lost
	for {
		select {
		case <-w.Fired(): // even if the connection was lost and restored since the read
			return false, nil
		case <-recheck:
			return false, nil
		case <-time.After(f.age.LookAgain()):
			if !f.age.Current() {
				return true, nil
			}
		case <-s.Disconnected():
			return true, nil
		case <-s.Done():
			return true, s.Err()
		case <-ctx.Done():
			return false, session.CauseOf(ctx)
		}
	}
}

// readIn reads until there is something to yield that is current.
func (f *follower[T]) readIn(ctx context.Context, s *session.Session) (T, *session.Watch, error) {
	for {
		value, w, age, late, err := f.readOnce(ctx, s)
		if err != nil {
			return value, nil, err
		}
		if age.Current() && (!late || !w.HasFired()) {
			f.age = age
			return value, w, nil
		}
	}
}

// readOnce reads once. If the connection is lost meanwhile, or the answer is late, it yields that the last view is
// outdated. The caller may take so long to handle this that what was read is by then outdated too.
func (f *follower[T]) readOnce(
	ctx context.Context, s *session.Session,
) (value T, w *session.Watch, age *session.Age, late bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { // the caller's loop may panic
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		_ = s.AwaitUp(ctx) // if it fails, so does the read
		age = s.NewAge()
		value, w, err = f.read(ctx, s)
		// Now that there is another one, or the same for the second time.
		s.Unwatch(f.watch)
		f.watch = w
		age.Watch(w)
	}()
	select {
	case <-done:
		return value, w, age, false, err
	case <-s.Disconnected():
	case <-time.After(s.Timeout() / 8):
	}
	stopped := f.outdated()
	if stopped != nil {
		cancel()
	}
	<-done
	return value, w, age, true, errors.Join(stopped, err)
}

// Watch yields the current node, then every change to its data, including deletion and creation; see the function
// [Follow].
func (c *Client) Watch(ctx context.Context, path string) iter.Seq2[View[session.Node], error] {
	if err := paths.Check("watch", path); err != nil {
		return func(yield func(View[session.Node], error) bool) { yield(View[session.Node]{}, err) }
	}
	return Follow(ctx, c, path, func(ctx context.Context, s *session.Session) (session.Node, *session.Watch, error) {
		return s.NodeW(ctx, path)
	}, session.Node.Same)
}
