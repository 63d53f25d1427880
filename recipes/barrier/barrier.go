package barrier

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// A Barrier blocks callers for as long as its node exists. It is stateless, so any number of goroutines can share one.
type Barrier struct {
	client *client.Client
	path   string
	data   []byte
	flags  int32
}

// Option configures [New].
type Option func(*config) error

type config struct{ flags int32 }

// WithEphemeral ties the barrier to the client that raises it: when that client's session ends, the barrier comes down
// and isn't raised again in the next session. By default, the barrier stays up until [Barrier.Remove] is called.
func WithEphemeral() Option {
	return func(c *config) error {
		c.flags = zk.FlagEphemeral
		return nil
	}
}

// New returns the barrier at path. It doesn't send any requests.
//
// Errors: a nil client; a path that is relative, malformed or the root; or an invalid option.
func New(c *conn.Client, path string, opts ...Option) (*Barrier, error) {
	var cfg config
	client := (*client.Client)(c)
	bad := recipe.Apply(&cfg, opts)
	_, err := znode.New(client, path, recipe.Config{}) // checks both
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	return &Barrier{client, path, recipe.Defaults(client).Data, cfg.flags}, nil
}

// Path returns the barrier's path.
func (b *Barrier) Path() string { return b.path }

func (b *Barrier) failed(op string, err error) error {
	return &session.OpError{Op: op, Path: b.path, Err: err}
}

// Set raises the barrier. If the barrier is already up, Set succeeds only if the existing barrier lasts as long as the
// requested one would: with [WithEphemeral], it must be tied to this client's session, and otherwise to no session.
//
// Errors: zk.ErrNodeExists if the existing barrier doesn't qualify; ErrUnknownOutcome if the reply was lost and this
// barrier is not up, either because it never was or because another client has since removed it, or if ctx or the
// session ended before Set could find out; context.Cause(ctx); ErrClosed; or the server's error.
//
// Source: Curator's DistributedBarrier.setBarrier.
func (b *Barrier) Set(ctx context.Context) error {
	return b.client.InSession(ctx, "set", b.path, func(s *session.Session) error { return b.raise(ctx, s) })
}

// raise raises the barrier in one session. A create whose reply was lost is never repeated: if another client has seen
// the barrier and removed it, that client does not expect it to be up again.
func (b *Barrier) raise(ctx context.Context, s *session.Session) error {
	var remakes session.Remakes
	for {
		_, err := s.Create(ctx, b.path, b.data, b.flags)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists):
			exists, stat, err := s.Exists(ctx, b.path)
			if err != nil {
				return err
			}
			if exists && !b.isAsSet(s, stat) {
				return b.failed("set", fmt.Errorf("%w: it %s", zk.ErrNodeExists, lifetime(stat)))
			}
			if exists {
				return nil
			}
		case errors.Is(err, zkrecipes.ErrUnknownOutcome):
			return b.settle(ctx, s, err)
		case errors.Is(err, zk.ErrNoNode):
			if err := remakes.MakeParents(ctx, s, b.path, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// settle determines the outcome after a lost reply. The quorum that agrees to the session's barrier transaction has the
// create too.
func (b *Barrier) settle(ctx context.Context, s *session.Session, doubt error) error {
	if err := s.Barrier(ctx); err != nil {
		return errors.Join(doubt, err)
	}
	exists, stat, err := s.Exists(ctx, b.path)
	if err != nil {
		return errors.Join(doubt, err)
	}
	if exists && b.isAsSet(s, stat) {
		return nil
	}
	return doubt
}

func lifetime(stat zk.Stat) string {
	if stat.EphemeralOwner == 0 {
		return "is persistent and stays up until Remove"
	}
	return fmt.Sprintf("was raised by session 0x%x, and is removed when that session ends", uint64(stat.EphemeralOwner))
}

// isAsSet reports whether the node lives as long as one that b would create in s.
func (b *Barrier) isAsSet(s *session.Session, stat zk.Stat) bool {
	if b.flags == 0 {
		return stat.EphemeralOwner == 0
	}
	return stat.EphemeralOwner == s.ID()
}

// Remove lowers the barrier and releases all waiters. If the barrier is already down, Remove is a no-op.
//
// Errors: ErrUnknownOutcome, context.Cause(ctx), ErrClosed, or the server's error. After any of these, the barrier may
// still be up.
//
// Source: Curator's DistributedBarrier.removeBarrier.
func (b *Barrier) Remove(ctx context.Context) error { return record.Remove(ctx, b.client, b.path) }

// Wait blocks until the barrier is down, through disconnects and into the next session. It also returns if the barrier
// was lowered and raised again before Wait could see it down. If it returns nil, the barrier was down at some moment
// since the call began or, if ZooKeeper's leader had just been replaced, at most 1.5 ticks earlier.
//
// Errors: context.Cause(ctx); ErrClosed; or the server's error. After any of these, the barrier may still be up.
//
// Source: Curator's DistributedBarrier.waitOnBarrier.
func (b *Barrier) Wait(ctx context.Context) error {
	if err := b.client.Sync(ctx, b.path); err != nil {
		return err
	}
	var czxid int64
	return b.client.InSession(ctx, "wait", b.path, func(s *session.Session) error { return b.wait(ctx, s, &czxid) })
}

// wait waits in one session. czxid is that of the node that was read first, and 0 before. If it changes, the barrier
// was down in between, because no read is older than one before it, even in the next session.
func (b *Barrier) wait(ctx context.Context, s *session.Session, czxid *int64) error {
	var last *session.Watch
	defer func() { s.Unwatch(last) }()
	for {
		// Unlike exists, this leaves no watch on the server when the node is gone.
		_, stat, changed, err := s.GetW(ctx, b.path)
		s.Unwatch(last)
		last = changed
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && *czxid != 0 && stat.Czxid != *czxid:
			return nil
		case err != nil:
			return err
		}
		*czxid = stat.Czxid
		if _, err := s.AwaitChange(ctx, s.RecheckAfter(), changed.Fired()); err != nil {
			return b.failed("wait", err)
		}
	}
}
