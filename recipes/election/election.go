package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Layout is how candidates are named in ZooKeeper. Candidates with different layouts do not see each other.
type Layout int

// The supported layouts.
const (
	// Latch is the layout of Curator's LeaderLatch, and the default.
	Latch Layout = iota
	// Selector is the layout of Curator's LeaderSelector and of its mutex, so an election and a mutex on one path
	// exclude each other.
	Selector
)

// Election elects one leader among the candidates on a path. One process may campaign in it several times at once. An
// Election is safe for concurrent use.
type Election struct {
	queue      *znode.Queue
	kind       string
	retry      func(error) bool
	standsBack bool
	term       atomic.Pointer[Term] // the newest
}

// Option configures [New].
type Option func(*config) error

type config struct {
	recipe.Config
	layout    Layout
	retry     func(error) bool
	standBack bool
}

// WithData sets the data of the candidates, which shows others who leads and who waits; the default is the client's
// identity. If it is text, it is also the Name of a [zkrecipes.Participant]. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends terms when the connection is lost. By default they continue until their deadline, and
// a leader that reconnects in time keeps its term.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithRetry sets the errors of its function after which [Election.Run] campaigns again; by default there are none.
// retry is not called for an error that only reports the end of the function's context.
func WithRetry(retry func(error) bool) Option {
	return func(c *config) error {
		if retry == nil {
			return errors.New("WithRetry: the function is nil")
		}
		c.retry = retry
		return nil
	}
}

// WithLayout sets how candidates are named in ZooKeeper; the default is [Latch].
func WithLayout(l Layout) Option {
	return func(c *config) error {
		if l != Latch && l != Selector {
			return fmt.Errorf("layout %d: want election.Latch or election.Selector", int(l))
		}
		c.layout = l
		return nil
	}
}

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the election; by default it has
// no name. The name has at most 100 bytes and should come from a small set, because each name has its own metrics. It
// is not sent to ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo makes the election count the contenders of kazoo, so that Python programs can share it; default off. kazoo
// must count those of this library too: its Lock takes extra_lock_patterns=["latch-"], or ["lock-"] for the layout
// [Selector]. Its Election does not accept them, but its attribute lock can be replaced by such a Lock. Without them
// kazoo does not see this side, and both lead.
//
// Use the option in all programs on the path: a program without it fails with ErrForeignContender when it meets a
// contender of kazoo.
//
// A holder that uses kazoo cannot be revoked. A missing path is created as a plain node, not as a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithHandOver determines when a candidate prepares for leadership; default [zkrecipes.HandOverLazy]. The other values
// help if more than two sessions contend for short terms, and most where servers are far away. They change nothing if
// only two contend at a time or all are of one session. Programs with different values may share the path. Together
// with [WithKazoo] it has no effect.
func WithHandOver(when zkrecipes.HandOver) Option { return recipe.HandOver[*config](when) }

// New returns the election on path. It sends nothing; the first Campaign creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; an invalid option.
func New(c *conn.Client, path string, opts ...Option) (*Election, error) {
	inner := (*client.Client)(c)
	cfg := config{Config: recipe.Defaults(inner), retry: func(error) bool { return false }}
	bad := recipe.Apply(&cfg, opts)
	kind := znode.Latch
	if cfg.layout == Selector {
		kind = znode.Lock
	}
	queue, err := znode.New(inner, path, cfg.Config, kind)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return &Election{queue: queue, kind: kind, retry: cfg.retry, standsBack: cfg.standBack}, nil
}

// Term is one term of leadership: a hold whose token is larger than that of every earlier term. When it is released,
// the next candidate leads.
type Term struct{ *zkrecipes.Hold }

// Proclaim replaces the leader's data, which other processes can read, if the term is still held.
//
// Errors: ErrFenced if the term is not held, and nothing was written; ErrUnknownOutcome if the reply was lost.
func (t *Term) Proclaim(ctx context.Context, data []byte) error {
	_, err := t.Txn(ctx, zkrecipes.OpSet(t.Path(), data, -1))
	return err
}

// Campaign blocks until the caller is the leader. If the session ends in the meantime, the caller campaigns again in
// the next session, at the end of the queue. ctx bounds the wait, not the term. The package documentation describes
// what the leader's reads see.
//
// On error the caller is not a candidate, and its node is deleted in the background.
//
// Errors: [*zkrecipes.WaitError] if ctx ends; ErrDeadlock, at once, if ctx descends from a live term of the same
// election; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise the error of the server.
//
// Source: ZooKeeper's recipe "Leader Election"; Curator's LeaderLatch.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	h, err := e.stand(ctx)
	if err != nil {
		return nil, err
	}
	t := &Term{h}
	for old := e.term.Load(); old == nil || old.Err() != nil || old.Token() < t.Token(); old = e.term.Load() {
		if e.term.CompareAndSwap(old, t) {
			break
		}
	}
	return t, nil
}

// Part returns a term as one of several locks for multilock.LockAll, which campaigns for it.
func (e *Election) Part() zkrecipes.Part {
	return hold.Part{Client: e.queue.Client(), Path: e.queue.Path(), Kind: e.kind, Acquire: e.campaign}.Public()
}

// Path returns the path of the election.
func (e *Election) Path() string { return e.queue.Path() }

// Queue returns all candidates, the leader first, in the order in which they lead. The list is no older than this call.
// An election without candidates has an empty queue, which is not an error.
//
// Errors: the cause of ctx, with what the call was waiting for; ErrClosed; otherwise the error of the server.
func (e *Election) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	return e.queue.List(ctx)
}

// Revoke asks the leader to resign by closing the Revoked channel of its term. The leader decides whether and when to
// resign. Without a leader, Revoke is a no-op. The request replaces the data of the leader, so others can no longer see
// its name.
//
// Errors: a holder that uses kazoo, which cannot be asked; otherwise those of [Election.Queue].
//
// Source: Curator's Revoker.
func (e *Election) Revoke(ctx context.Context) error { return e.queue.Revoke(ctx) }
