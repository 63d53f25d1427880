package barrier

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// A Latch blocks callers until it has been counted down n times, and is open from then on. Because its state is in
// persistent nodes, it outlives every client. It is stateless itself, so any number of goroutines can share one.
type Latch struct {
	client *client.Client
	path   string
	n      int
}

// NewLatch returns the latch at path, which opens after n counts. All clients must use the same n. NewLatch doesn't
// send any requests; the first count creates the node and missing parents.
//
// A latch opens only once. For the next time, use a new path, or delete the old latch's nodes. Do this only when no
// client is still counting or waiting, because a count still in flight would count toward the new latch.
//
// Errors: a nil client; a path that is relative, malformed or the root; or an n below 1.
func NewLatch(c *conn.Client, path string, n int) (*Latch, error) {
	inner := (*client.Client)(c)
	_, err := znode.New(inner, path, recipe.Config{}) // checks both
	if err == nil && n < 1 {
		err = fmt.Errorf("n is %d: want 1 or more counts", n)
	}
	if err != nil {
		return nil, fmt.Errorf("latch: %w", err)
	}
	return &Latch{inner, path, n}, nil
}

// Path returns the latch's path.
func (l *Latch) Path() string { return l.path }

func (l *Latch) failed(op string, err error) error {
	return &session.OpError{Op: op, Path: l.path, Err: err}
}

// CountDown counts down by one, and returns how many counts are left. The final count opens the latch, which then stays
// open; counting down an open latch has no effect.
//
// Each name counts once: a call with the same name as an earlier one has no effect, even in another process. This lets
// a restarted program count again for work that it repeats. If the name is empty, every call counts, but only once,
// even if replies are lost or sessions end.
//
// Errors: a name that can't be part of a node name, before sending any request; a latch with a different n, or whose
// node holds something else, in which case nothing was counted; ErrUnknownOutcome if ctx was done or the client was
// closed before the outcome of the count was known, or if the server failed on it (with a name, simply call again); or
// the server's error.
//
// Source: Java's CountDownLatch, and RCountDownLatch of Redisson, which counts again if a reply is lost.
func (l *Latch) CountDown(ctx context.Context, name string) (left int, err error) {
	if name == "" {
		name = ephemeral.NewGUID()
	}
	if err := paths.ValidateName("name", name); err != nil {
		return 0, l.failed("count down", err)
	}
	now, counted, err := record.Named{
		Client: l.client, Path: l.path, Mark: l.path + "/by-" + name,
		Next: func(now session.Node) ([]zkrecipes.Op, error) {
			if left, err = l.left(now); err != nil || left == 0 {
				return nil, err
			}
			left--
			return l.count(now, left), nil
		},
	}.Do(ctx)
	if err == nil && !counted {
		left, err = l.left(now)
	}
	if err != nil {
		return 0, err
	}
	return left, nil
}

// count returns the operations that write what is left. The final count opens the latch in the same transaction, so the
// latch is never shut when no counts are left.
func (l *Latch) count(now session.Node, left int) (ops []zkrecipes.Op) {
	text := []byte(fmt.Sprintf("%d/%d", left, l.n))
	if now.Exists {
		set := zkrecipes.OpSet(l.path, text, now.Stat.Version)
		set.Exact = true
		ops = append(ops, set)
	} else {
		ops = append(ops, zkrecipes.OpCreate(l.path, text, 0))
	}
	if left == 0 {
		ops = append(ops, zkrecipes.OpCreate(l.open(), nil, 0))
	}
	return ops
}

// open returns the path of the node that exists when the latch is open. Waiters watch only that node, so counts wake no
// one.
func (l *Latch) open() string { return l.path + "/open" }

// left returns how many counts are left according to the node's data, such as 3/10.
func (l *Latch) left(now session.Node) (int, error) {
	if !now.Exists {
		return l.n, nil
	}
	text, of, _ := strings.Cut(string(now.Data), "/")
	left, bad := strconv.Atoi(text)
	n, worse := strconv.Atoi(of)
	switch {
	case bad != nil || worse != nil || left < 0 || left > n:
		return 0, l.failed("latch",
			fmt.Errorf("the node holds %q: want remaining and total counts, such as 3/10", now.Data))
	case n != l.n:
		return 0, l.failed("latch",
			fmt.Errorf("it opens after %d counts, not %d: all programs must use the same number", n, l.n))
	}
	return left, nil
}

// Count returns how many counts are left, or 0 if the latch is open. The result is at least as recent as the call,
// except that it may be up to 1.5 ticks older if ZooKeeper's leader has just been replaced.
//
// Errors: the same as for [Latch.CountDown], except ErrUnknownOutcome; context.Cause(ctx); or ErrClosed.
func (l *Latch) Count(ctx context.Context) (left int, err error) {
	if err := l.client.Sync(ctx, l.path); err != nil {
		return 0, err
	}
	now, err := record.Load(ctx, l.client, l.path)
	if err != nil {
		return 0, err
	}
	return l.left(now)
}

// Wait blocks until the latch is open, through disconnects and into the next session. Only the final count wakes
// waiters, and it wakes all of them. If it returns nil, the latch was open at some moment since the call began or, if
// ZooKeeper's leader had just been replaced, at most 1.5 ticks earlier.
//
// Errors: context.Cause(ctx); ErrClosed; or the server's error.
func (l *Latch) Wait(ctx context.Context) error {
	if err := l.client.Sync(ctx, l.path); err != nil {
		return err
	}
	return l.client.InSession(ctx, "wait", l.path, func(s *session.Session) error {
		var last *session.Watch
		defer func() { s.Unwatch(last) }()
		for {
			open, changed, err := s.NodeW(ctx, l.open())
			s.Unwatch(last)
			last = changed
			if err != nil || open.Exists {
				return err
			}
			if _, err := s.AwaitChange(ctx, s.RecheckAfter(), changed.Fired()); err != nil {
				return l.failed("wait", err)
			}
		}
	})
}
