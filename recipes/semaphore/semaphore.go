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

// A Semaphore is a pool of leases that all callers on a path share. It is stateless, so any number of goroutines may
// share one; they count just as processes do.
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

// WithData sets the data of the caller's nodes, which shows others who holds leases and who waits. The default is the
// client's identity. If the data is text, it is also the [zkrecipes.Participant]'s Name. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds as soon as the connection is lost. By default a hold continues until its deadline, and
// keeps its leases if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithLimitNode keeps the limit in the node at path and follows it while the semaphore is used, so that you can change
// the limit with [Semaphore.SetLimit]; by default it is fixed to the one given to [New]. A missing node is created with
// that limit. While the node holds 0 or less, every caller waits.
//
// The node holds four bytes, big-endian, as written by SetLimit and zkr limit. A number typed as text would be read as
// hundreds of millions, so text is rejected: acquisitions fail until the node holds a number.
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

// WithTracerName names the semaphore for tracers, and therefore in metrics and traces; by default it has no name. Names
// are at most 100 bytes long and should come from a small set, because each has its own metrics. They are not sent to
// ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo gives the semaphore kazoo's layout, so that Python programs can share it unchanged; default off. Use the
// option in all programs on the path: if kazoo's layout and Curator's exist side by side, neither counts the other's
// leases. An acquisition that finds nodes of both fails with ErrForeignContender.
//
// The limit is fixed, and [WithLimitNode] cannot be used. The node at the path holds the limit as text and is created
// with the one given to [New]. If it holds another limit, acquisitions fail, as in kazoo.
//
// A kazoo lease cannot be revoked. If a kazoo client's session expires while it acquires, the client may exceed the
// limit, because its request for a lease may be sent in the next session, when others have already taken leases in its
// place.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the semaphore on path with the given limit. It sends no request; the first Acquire creates missing nodes.
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

// Acquire blocks until the caller holds n leases, all or none, which are granted first come, first served. A caller
// whose session ends while it waits rejoins the queue at the back. You can give ctx a deadline for the wait without
// limiting the hold, whose context inherits only ctx's values.
//
// Errors: at once, n below 1, above a limit that is not in a node, or more than fits into one request (thousands);
// later, [*zkrecipes.WaitError] if ctx ends; ErrForeignContender; ErrSequenceExhausted; ErrClosed; a limit node that
// cannot be read; otherwise the server's error.
//
// Source: Curator's InterProcessSemaphoreV2, which takes leases one by one.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Acquire(ctx, s.leases(n))
}

// TryAcquire is like [Semaphore.Acquire], but never waits. It fails if there are not enough leases, or if another
// caller is ahead of it in the queue, whether that caller waits or is just taking its leases. Of several concurrent
// calls, some may therefore fail although there are leases for all; if you cannot accept that, use Acquire with a short
// deadline. If TryAcquire fails, it leaves no node in ZooKeeper unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if it would have to wait; otherwise as for Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Try(ctx, s.leases(n))
}

// Do acquires n leases, calls fn, and releases them when fn returns or panics. fn's context descends from the hold, and
// is canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the leases were held from fn's first
// statement to its last.
//
// Errors: those from [Semaphore.Acquire], in which case fn is not called; an error from fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. If fn's error only reports that its context was
// canceled, the joined error has its text but does not match it, so that you never mistake a loss for a cancellation.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, s.acquire(n), fn)
}

// Run is like [Semaphore.Do], but starts over after each loss: it waits for fn to return, acquires again, and calls fn
// with the new hold. fn must therefore be able to start over. If Run returns nil, the leases were held from the first
// statement of the last call to fn until its last.
//
// If a hold lasted less than a second, Run backs off before it acquires again: 50 ms the first time, doubling each time
// up to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the back-off.
//
// An error from fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx);
// those from [Semaphore.Acquire] except ErrAuthFailed, after which Run backs off and retries.
func (s *Semaphore) Run(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, s.acquire(n), fn)
}

func (s *Semaphore) acquire(n int) func(context.Context) (*zkrecipes.Hold, error) {
	return func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) }
}

// Part returns n leases as an argument for multilock.LockAll, which acquires several locks together.
func (s *Semaphore) Part(n int) zkrecipes.Part {
	return hold.Part{
		Client: s.shared.Client(), Path: s.path, Kind: znode.Lease, Invalid: s.check(n),
		Acquire: s.acquire(n),
	}.Public()
}

// Path returns the semaphore's path.
func (s *Semaphore) Path() string { return s.path }

// Holders returns the leases that are held, oldest first. The list is no older than this call. Leases that belong to
// one hold have the same token. The first waiter may already have a lease node for each lease it waits for; these are
// not listed.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; otherwise the server's error.
func (s *Semaphore) Holders(ctx context.Context) ([]zkrecipes.Participant, error) {
	limit, err := s.readLimit(ctx)
	if err != nil {
		limit = 0 // only decides whether the door is read too; a client that cannot reach the servers fails below
	}
	return s.shared.List(ctx, limit)
}

// Queue returns the leases that are held, like [Semaphore.Holders], followed by the waiters, one node for each, in the
// order in which they will be granted. The list is no older than this call. A caller that is granted its leases during
// the call may appear among both the holders and the waiters.
//
// Errors: as for [Semaphore.Holders].
func (s *Semaphore) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	waiting, err := s.shared.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := s.Holders(ctx)
	return append(holders, waiting...), err
}

// Revoke asks all holders to release their leases by closing each hold's [zkrecipes.Hold.Revoked] channel. Each holder
// decides whether and when to do so. If there are no holders, Revoke is a no-op. The request replaces the leases' data,
// so the holders' names no longer appear in [Semaphore.Holders].
//
// Errors: a kazoo lease, whose holder cannot be asked; ErrUnknownOutcome if a reply was lost, after which you can call
// Revoke again; otherwise as for [Semaphore.Holders].
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
