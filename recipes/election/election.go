package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Layout says how candidates are named in ZooKeeper. Candidates of different layouts do not see each other.
type Layout int

// The layouts.
const (
	// Latch is the layout of Curator's LeaderLatch, and the default.
	Latch Layout = iota
	// Selector is that of Curator's LeaderSelector, which is also that of its mutex: an election and a mutex on one
	// path exclude each other.
	Selector
)

// Election is a standing contest for leadership among all that use the same path. It has no state of its own; one
// process may campaign in it several times over. It is safe for concurrent use.
type Election struct {
	queue *znode.Queue
	kind  string
	id    string
}

// Option configures [New].
type Option func(*config) error

type config struct {
	id            string
	layout        Layout
	lossOnSuspend bool
}

// WithID sets the name under which candidates appear to others; default the client's identity. It need not be unique.
func WithID(id string) Option {
	return func(c *config) error {
		c.id = id
		return nil
	}
}

// WithLayout sets how candidates are named in ZooKeeper; default [Latch].
func WithLayout(l Layout) Option {
	return func(c *config) error {
		if l != Latch && l != Selector {
			return fmt.Errorf("layout %d: want election.Latch or election.Selector", int(l))
		}
		c.layout = l
		return nil
	}
}

// WithLossOnSuspend ends terms when the connection is lost. By default they run on to their deadline, and a leader that
// is back in time remains one.
func WithLossOnSuspend() Option {
	return func(c *config) error {
		c.lossOnSuspend = true
		return nil
	}
}

// New returns the election on path. It sends nothing; parents that are missing are made when somebody campaigns.
//
// Errors: a nil client, a path that is relative, malformed or the root, a bad option.
func New(c *conn.Client, path string, opts ...Option) (*Election, error) {
	var cfg config
	if c != nil {
		cfg.id = c.Identity()
	}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&cfg))
	}
	kind := znode.Latch
	if cfg.layout == Selector {
		kind = znode.Lock
	}
	queue, err := znode.New(c, path, cfg.lossOnSuspend, kind)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return &Election{queue, kind, cfg.id}, nil
}

// Term is one term of leadership: a hold whose token is the number of the term, larger than that of every term before.
type Term struct{ *zkrecipes.Hold }

// Proclaim replaces what others see as the leader's ID, if the term is still held.
//
// Errors: ErrFenced if it is not, and nothing was written; ErrUnknownOutcome if the reply was lost.
func (t *Term) Proclaim(ctx context.Context, data []byte) error {
	_, err := t.Txn(ctx, &zk.SetDataRequest{Path: t.Path(), Data: data, Version: -1})
	return err
}

// Resign ends the term and lets the next candidate lead; it is the hold's Release.
func (t *Term) Resign(ctx context.Context) error { return t.Release(ctx) }

// Campaign waits until the caller is the leader. A candidate whose session ends meanwhile stands again, at the end of
// the line, in the next. ctx bounds the waiting, not the term.
//
// After an error the caller is no candidate; what is left of it in ZooKeeper is being removed.
//
// Errors: [*zkrecipes.WaitError] when ctx ends; ErrDeadlock, at once, if ctx descends from a live term of the same
// election; ErrSequenceExhausted; ErrClosed; otherwise what the server said.
//
// Source: ZooKeeper's recipe "Leader Election"; Curator's LeaderLatch.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	h, err := e.queue.Acquire(ctx, znode.Entry{Kind: e.kind, Data: []byte(e.id), Rule: znode.First})
	if err != nil {
		return nil, err
	}
	return &Term{h}, nil
}

// farewell is how long Run waits for the removal of its candidate once its context has ended. The removal goes on
// after that; with a server that answers it takes a round trip.
const farewell = time.Second

// Run campaigns, calls lead when elected, and campaigns again when lead has returned, until ctx ends. The context of
// lead ends with the term and with ctx, whichever is first. A term ends in this order: the context of lead, lead itself,
// then the candidate in ZooKeeper. So a leader that honours its context has stopped before another is let in, unless
// the term was lost: then it has until [zkrecipes.Hold.ValidUntil].
//
// An error of lead ends Run, except one that only says that lead's context had ended. Several errors that are joined
// say more if one of them does. A panic of lead resigns, and goes on as a panic.
//
// Errors: that of lead; the cause of ctx; those of [Election.Campaign].
//
// Source: Curator's LeaderSelector with autoRequeue.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, t *Term) error) error {
	for {
		t, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		if err := e.serve(ctx, t, lead); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// serve is one term.
func (e *Election) serve(ctx context.Context, t *Term, lead func(context.Context, *Term) error) error {
	leading, end := znode.Both(t.Context(), ctx)
	defer func() { // also when lead panics
		end(zkrecipes.ErrReleased)
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = t.Resign(bye) // lost before, or the removal goes on: both are none of the caller's business
	}()
	err := lead(leading, t)
	if leading.Err() != nil && saysEnded(err, context.Cause(leading)) {
		return nil
	}
	return err
}

// saysEnded reports whether err says no more than that a context has ended for that cause. If several errors are joined,
// each of them must. The errors of this library are excepted, which also name what was in the way.
func saysEnded(err, cause error) bool {
	switch e := err.(type) { //nolint:errorlint // what err wraps is looked at in its turn
	case *conn.OpError, *zkrecipes.WaitError, *zkrecipes.LostError:
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(part error) bool { return !saysEnded(part, cause) })
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return saysEnded(inner, cause)
		}
	}
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, cause, zkrecipes.ErrLost, zkrecipes.ErrFenced},
		func(end error) bool { return errors.Is(err, end) })
}

// Candidates returns everybody in the line, the leader first, as new as this call.
func (e *Election) Candidates(ctx context.Context) ([]zkrecipes.Participant, error) {
	return e.queue.List(ctx)
}
