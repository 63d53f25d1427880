package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Layout says how candidates are named in ZooKeeper. Candidates of different layouts do not see each other.
type Layout int

// The layouts.
const (
	// Latch is the layout of Curator's LeaderLatch, and the default.
	Latch Layout = iota
	// Selector is the layout of Curator's LeaderSelector and of its mutex: an election and a mutex on one path exclude
	// each other.
	Selector
)

// Election elects one leader among the candidates on the same path. One process may campaign in it several times at once.
// It is safe for concurrent use.
type Election struct {
	queue *znode.Queue
	kind  string
	retry func(error) bool
	term  *atomic.Pointer[Term] // the newest of all objects of the client
}

// Option configures [New].
type Option func(*config) error

type config struct {
	recipe.Config
	layout Layout
	retry  func(error) bool
}

// WithData sets the data of the candidates, by which others see who leads and who stands; default the client's identity. Text is the Name of a
// [zkrecipes.Participant], too. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends terms when the connection is lost. By default they run on to their deadline: a leader that is
// connected again in time keeps its term.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithRetry says for which errors of its function [Election.Run] stands again; default none. It is not asked about an
// error that only says that the context of the function has ended.
func WithRetry(retry func(error) bool) Option {
	return func(c *config) error {
		if retry == nil {
			return errors.New("WithRetry: the function is nil")
		}
		c.retry = retry
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

// WithTracerName sets the name by which tracers, and so metrics and traces, know the election; default none. It has at most
// 100 bytes, and should be one of few: each name has its own metrics. ZooKeeper does not see it.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo makes the election count the contenders of kazoo, so that programs in Python share it; default off. kazoo must count
// those of this library too: its Lock takes extra_lock_patterns=["latch-"], or ["lock-"] for the layout
// [Selector]. Its Election cannot be given them, but its attribute lock can be replaced by such a Lock. Without them kazoo
// does not see this side, and both lead.
//
// Use the option in all programs on the path. A program without it fails with ErrForeignContender when it meets a contender
// of kazoo.
//
// A holder of kazoo cannot be revoked. If the path is missing, it is created as a plain node and not as a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithEagerHandOver lets a waiter prepare its turn before its predecessor leaves; default off. A waiter that is not next watches the
// contender two ahead of it. When that leaves, the waiter looks whether it is next, while its predecessor still leads. Then the
// event of the predecessor's end lets it in, without another request.
//
// It saves a round trip of each hand-over between more than two sessions, so it helps where servers are far, and terms short.
// If two contend at a time, or all are of one session, it changes nothing. It costs the servers more: a release wakes two clients instead of one, and a
// contended term takes about eight requests instead of five. Who leads, and in which order, stays the same. A program
// with the option and one without it may share the path. Beside [WithKazoo] it has no effect.
func WithEagerHandOver() Option { return recipe.EagerHandOver[*config]() }

// New returns the election on path. It sends nothing; the first Campaign creates missing parents.
//
// Errors: a nil client, a path that is relative, malformed or the root, a bad option.
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
	return &Election{queue, kind, cfg.retry, client.Shared[atomic.Pointer[Term]](inner, path, kind)}, nil
}

type termKey struct{}

// Term is one term of leadership: a hold whose token is larger than the token of every term before it. Its Release lets the next
// candidate lead.
type Term struct{ *zkrecipes.Hold }

// Proclaim replaces the leader's data, which other processes see, if the term is still held.
//
// Errors: ErrFenced if the term is not held, nothing was written; ErrUnknownOutcome if the reply was lost.
func (t *Term) Proclaim(ctx context.Context, data []byte) error {
	_, err := t.Txn(ctx, zkrecipes.OpSet(t.Path(), data, -1))
	return err
}

// Campaign waits until the caller is the leader. If the session ends meanwhile, the caller campaigns again in the next
// session, at the end of the queue. ctx bounds the waiting, not the term.
//
// While the hold lasts, reads of the same client see all that the last leader wrote in ZooKeeper before its hold ended: the
// server that answers has applied the end of that hold. If the last hold was of the same session, they see each of its
// writes that was answered.
//
// On error the caller is no candidate. Its node is deleted in the background.
//
// Errors: [*zkrecipes.WaitError] when ctx ends; ErrDeadlock, at once, if ctx descends from a live term of the same
// election; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise what the server said.
//
// Source: ZooKeeper's recipe "Leader Election"; Curator's LeaderLatch.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	known := context.WithValue(ctx, termKey{}, e.term) // an object that is made later finds the term, if its hold alone is left of this one
	h, err := e.queue.Acquire(known, znode.Entry{Kind: e.kind, Rule: znode.First, As: "election"})
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

// Path returns the path of the election.
func (e *Election) Path() string { return e.queue.Path() }

// Queue returns all candidates in the order in which they will lead, the leader first, as new as this call. An election
// without candidates has none, and that is no error.
//
// Errors: the cause of ctx, with what is in the way; ErrClosed; otherwise what the server said.
func (e *Election) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	return e.queue.List(ctx)
}

// Revoke asks the leader to resign: the Revoked channel of its term is closed. The leader decides whether it resigns, and
// when. It is no error if there is no leader. The request replaces the data of the leader, so others see its name no more.
//
// Errors: a holder of kazoo, which cannot be asked; otherwise those of [Election.Queue].
//
// Source: Curator's Revoker.
func (e *Election) Revoke(ctx context.Context) error { return e.queue.Revoke(ctx) }
