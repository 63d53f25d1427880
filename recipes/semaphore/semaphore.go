package semaphore

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Semaphore is a number of leases that all callers on a path share. It is stateless: any number of goroutines may share
// one, and they count just as processes do.
type Semaphore struct {
	shared *znode.Semaphore
	path   string
	limit  limit
}

// Option configures [New].
type Option func(*config) error

type config struct {
	recipe.Config
	limitNode string
}

// WithData sets the data of the leases, which shows others who holds and who waits; the default is the client's
// identity. If it is text, it is also the Name of a [zkrecipes.Participant]. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds when the connection is lost. By default they continue until their deadline, and a holder
// that reconnects in time keeps its leases.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithLimitNode keeps the limit in the node at path, which is followed while the semaphore is used; by default the
// limit is the one given to [New]. If the node is missing, it is created with that limit. While it holds a limit of 0
// or less, every caller waits.
//
// The node holds four bytes, big-endian, which [Semaphore.SetLimit] and zkr limit write. A number typed as text would
// be read as hundreds of millions, so text is rejected: acquisitions fail until the node holds a number.
//
// Source: Curator's SharedCount.
func WithLimitNode(path string) Option {
	return func(c *config) error {
		if err := conn.ValidatePath(path); err != nil {
			return fmt.Errorf("limit node: %w", err)
		}
		if path == "/" {
			return errors.New("limit node: path \"/\" is the root: want a path such as /app/limit")
		}
		c.limitNode = path
		return nil
	}
}

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the semaphore; by default it
// has no name. The name has at most 100 bytes and should come from a small set, because each name has its own metrics.
// It is not sent to ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo gives the semaphore the layout of kazoo, so that Python programs can share it unchanged; default off. Use
// the option in all programs on the path: if kazoo's layout and Curator's exist side by side, neither counts the
// other's leases. If there are nodes of both, an acquisition fails with ErrForeignContender.
//
// The limit is fixed. The node at the path holds it as text, and is created with the limit given to [New]. If it holds
// another limit, an acquisition fails, as in kazoo. [WithLimitNode] cannot be used.
//
// A lease of kazoo cannot be revoked. If the session of a kazoo client expires while it acquires, it may exceed the
// limit, because its request for a lease may be sent in the next session, when others have passed the door.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the semaphore on path with the given limit. It sends nothing; the first Acquire creates missing nodes.
//
// Errors: a nil client; a path that is relative, malformed or the root; a limit below 1; an invalid option.
func New(c *conn.Client, path string, limit int, opts ...Option) (*Semaphore, error) {
	client := (*client.Client)(c)
	cfg := config{Config: recipe.Defaults(client)}
	bad := errors.Join(checkLimit(limit), recipe.Apply(&cfg, opts))
	if cfg.limitNode != "" && bad == nil {
		if err := checkStored(limit); err != nil {
			bad = fmt.Errorf("limit %d: %w", limit, err)
		}
	}
	if cfg.Kazoo && cfg.limitNode != "" {
		bad = errors.Join(bad, errors.New("WithLimitNode and WithKazoo: kazoo's limit is fixed: want one of the two"))
	}
	shared, err := znode.NewSemaphore(client, path, cfg.Config)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("semaphore: %w", err)
	}
	return &Semaphore{shared, path, newLimit(limit, path, cfg)}, nil
}

// Acquire blocks until the caller holds n leases, all or none. Leases are granted first come, first served. If the
// session ends in the meantime, the caller queues again in the next session, at the end of the queue. ctx bounds the
// wait, not the hold; the hold's context carries the values of ctx.
//
// On error the caller holds no lease and is out of the queue, and its nodes are deleted in the background.
//
// Errors: at once, n below 1, above a limit that is not in a node, or more than fits into one request (thousands);
// later, [*zkrecipes.WaitError] if ctx ends; ErrForeignContender; ErrSequenceExhausted; ErrClosed; a limit node that
// cannot be read; otherwise the error of the server.
//
// Source: Curator's InterProcessSemaphoreV2, which takes leases one by one.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Acquire(ctx, s.leases(n))
}

// TryAcquire is like [Semaphore.Acquire], but never waits. It fails if there are not enough leases, or if another
// caller is ahead of it at the door: one that waits, or one that is just taking its leases. Of several concurrent
// calls, some may therefore fail although there are leases for all; a caller that must not fail then uses Acquire with
// a context that ends soon. On error it leaves no node in ZooKeeper, unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if it would have to wait; otherwise those of Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Try(ctx, s.leases(n))
}

// Do acquires n leases, calls fn, and releases them when fn returns or panics. The context of fn descends from the
// hold, and is canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the leases were held from
// the first statement of fn to the last.
//
// Errors: the errors of [Semaphore.Acquire], in which case fn was not called; the error of fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. A cancellation never hides a loss: an error that only
// reports the end of fn's context is reduced to its text in the joined error.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, s.acquire(n), fn)
}

// Run is like [Semaphore.Do], but starts over after each loss: it waits for fn to return, acquires again, and calls fn
// with the new hold. fn must therefore be able to start again. If Run returns nil, the leases were held from the first
// statement of the last call of fn to its last.
//
// If a hold lasted less than a second, Run backs off before it acquires again: 50 ms the first time, doubling each time
// up to 5 s, with a random half more or less. A longer hold resets the back-off.
//
// An error of fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; the cause of ctx; the
// errors of [Semaphore.Acquire] except ErrAuthFailed, after which Run retries with pauses.
func (s *Semaphore) Run(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, s.acquire(n), fn)
}

func (s *Semaphore) acquire(n int) func(context.Context) (*zkrecipes.Hold, error) {
	return func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) }
}

// Part returns n leases as one of several locks for multilock.LockAll.
func (s *Semaphore) Part(n int) zkrecipes.Part {
	return hold.Part{
		Client: s.shared.Client(), Path: s.path, Kind: znode.Lease, Invalid: s.check(n),
		Acquire: s.acquire(n),
	}.Public()
}

// Path returns the path of the semaphore.
func (s *Semaphore) Path() string { return s.path }

// Holders returns the leases that are held, the oldest first. The list is no older than this call. Leases of one hold
// have the same token. The first waiter has a lease node for each lease that it waits for; these are not listed.
//
// Errors: the cause of ctx, with what the call was waiting for; ErrClosed; otherwise the error of the server.
func (s *Semaphore) Holders(ctx context.Context) ([]zkrecipes.Participant, error) {
	limit, err := s.readLimit(ctx)
	if err != nil {
		limit = 0 // only decides whether the door is read too; a client that cannot reach the servers fails below
	}
	return s.shared.List(ctx, limit)
}

// Queue returns the leases that are held, like [Semaphore.Holders], followed by the waiters, one node for each, in the
// order in which they are granted. The list is no older than this call. A caller that is granted in the meantime may
// appear in both parts.
//
// Errors: those of [Semaphore.Holders].
func (s *Semaphore) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	waiting, err := s.shared.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := s.Holders(ctx)
	return append(holders, waiting...), err
}

// Revoke asks all holders to release their leases by closing the [zkrecipes.Hold.Revoked] channel of their holds. Each
// holder decides whether and when to release. Without holders, Revoke is a no-op. The request replaces the data of the
// leases, so [Semaphore.Holders] no longer shows the names of the holders.
//
// Errors: a lease of kazoo, which cannot be asked; otherwise those of [Semaphore.Holders].
func (s *Semaphore) Revoke(ctx context.Context) error {
	leases, err := s.Holders(ctx)
	if err != nil {
		return err
	}
	paths := make([]string, len(leases))
	for i, lease := range leases {
		paths[i] = lease.Path
	}
	return znode.RevokeAt(ctx, s.shared.Client(), paths...)
}

func (s *Semaphore) check(n int) error {
	switch {
	case n < 1:
		return fmt.Errorf("acquire %s: n is %d: want 1 or more", s.path, n)
	case s.limit.node == "" && n > s.limit.seed:
		return fmt.Errorf("acquire %s: n is %d, above the limit of %d", s.path, n, s.limit.seed)
	default:
		return nil
	}
}

func (s *Semaphore) leases(n int) znode.Leases {
	return znode.Leases{
		Count: n, As: "semaphore",
		Limit: func(ctx context.Context, in *session.Session) (int, *session.Watch, error) {
			limit, changed, err := s.limit.look(ctx, in)
			if err != nil {
				return 0, nil, fmt.Errorf("limit of %s: %w", s.path, err)
			}
			return limit, changed, nil
		},
	}
}
