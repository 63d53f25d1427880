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

// Layout is how candidates are named in ZooKeeper. Candidates with different layouts don't see each other.
type Layout int

// The supported layouts.
const (
	// Latch is the layout of Curator's LeaderLatch, and the default.
	Latch Layout = iota
	// Selector is the layout of Curator's LeaderSelector and InterProcessMutex, so an election and a mutex on one path
	// exclude each other.
	Selector
)

// An Election elects one leader among the candidates on a path. It is safe for concurrent use, and a process can
// campaign in the same Election several times at once.
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

// WithData sets the data of the candidate's node, which lets others see who is leading and who is waiting. It defaults
// to the client's identity and doesn't have to be unique. If the data is text, it is also the [zkrecipes.Participant]'s
// Name.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends terms as soon as the connection is lost. By default, a term stays valid until its deadline,
// and survives the disconnect if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithRetry makes [Election.Run] campaign again, instead of returning, if its function fails with an error for which
// the retry function returns true. By default, there are no such errors. The retry function isn't called for errors
// that only report that the context of Run's function was done.
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

// WithTracerName sets the name that identifies the election in metrics and traces. By default, the election is unnamed.
// A name is at most 100 bytes long and isn't sent to ZooKeeper. Use only a few different names, because each one has
// its own metrics.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo makes the election take kazoo's contenders into account, so that Python programs can share it. The option
// is off by default. For exclusion to work in both directions, kazoo must also see our candidates, or else both sides
// can lead at the same time: its Lock takes extra_lock_patterns=["latch-"], or ["lock-"] for the layout [Selector].
// kazoo's Election doesn't take that argument, but you can replace its attribute lock with such a Lock. Use the option
// in every program on the path, because a program without it fails with ErrForeignContender when it meets a kazoo
// contender.
//
// A holder that uses kazoo can't be revoked. A missing path is created as a plain node instead of a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithHandOver determines when a candidate prepares for leadership; the default is [zkrecipes.HandOverLazy]. The other
// values help when more than two sessions contend for short terms, especially if the servers are far away. They make no
// difference if only two contend at a time, if all contenders belong to one session, or in combination with
// [WithKazoo]. Programs with different values can share the path.
func WithHandOver(when zkrecipes.HandOver) Option { return recipe.HandOver[*config](when) }

// New returns the election on path. It doesn't send any requests; the first Campaign creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; or an invalid option.
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

// A Term is one term of leadership: a hold whose token is larger than that of every earlier term. When you release it,
// the next candidate leads.
type Term struct{ *zkrecipes.Hold }

// Proclaim replaces the leader's data, provided the term is still held. Other processes can read the data, so you can
// use it to announce the leader's address, for example.
//
// Errors: ErrFenced if the term is no longer held, in which case nothing was written; ErrUnknownOutcome if the reply
// was lost.
func (t *Term) Proclaim(ctx context.Context, data []byte) error {
	_, err := t.Txn(ctx, zkrecipes.OpSet(t.Path(), data, -1))
	return err
}

// Campaign blocks until the caller is the leader. Once it returns, ctx no longer affects the term. The package
// documentation describes what the leader's reads see, and what happens to a candidate whose session ends.
//
// Errors: [*zkrecipes.WaitError] if ctx is done first; ErrDeadlock, immediately, if ctx is derived from a live term in
// the same election; ErrForeignContender; ErrSequenceExhausted; ErrClosed; or the server's error.
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

// Part returns a term as an argument for multilock.LockAll, which campaigns for the term and acquires the other locks
// along with it.
func (e *Election) Part() zkrecipes.Part {
	return hold.Part{Client: e.queue.Client(), Path: e.queue.Path(), Kind: e.kind, Acquire: e.campaign}.Public()
}

// Path returns the election's path.
func (e *Election) Path() string { return e.queue.Path() }

// Queue returns the leader, followed by the other candidates in queue order. The list is at least as recent as the
// call. If there are no candidates, the list is empty and the error is nil.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; or the server's error.
func (e *Election) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	return e.queue.List(ctx)
}

// Revoke asks the leader to resign, by closing its term's Revoked channel. Whether and when to comply is up to the
// leader. If there is no leader, Revoke is a no-op. Since the request replaces the leader's data, others can no longer
// see its name. Conversely, if the leader calls [Term.Proclaim] before it has read the request, the request is lost,
// and you have to call Revoke again.
//
// Errors: a holder that uses kazoo, because it can't be asked; ErrUnknownOutcome if the reply was lost, after which you
// can call Revoke again; otherwise the same as for [Election.Queue].
//
// Source: Curator's Revoker.
func (e *Election) Revoke(ctx context.Context) error { return e.queue.Revoke(ctx) }
