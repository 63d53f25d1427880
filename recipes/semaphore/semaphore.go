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

// A Semaphore is a pool of leases that all callers on a path share. It is stateless, so any number of goroutines can
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

// WithData sets the data of the caller's nodes, which lets others see who holds leases and who is waiting. It defaults
// to the client's identity and doesn't have to be unique. If the data is text, it is also the [zkrecipes.Participant]'s
// Name.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds as soon as the connection is lost. By default, a hold stays valid until its deadline,
// and keeps its leases if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithLimitNode keeps the limit in the node at path and follows that node while the semaphore is in use, so that you
// can change the limit with [Semaphore.SetLimit]. By default, the limit is fixed to the one given to [New]. If the node
// is missing, it is created with that limit. While the node holds 0 or less, every caller waits.
//
// The node holds four bytes in big-endian order, as written by SetLimit and zkr limit. Because a number typed as text
// would be read as hundreds of millions, text is rejected, and acquisitions fail until the node holds a number.
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

// WithTracerName sets the name that identifies the semaphore in metrics and traces. By default, the semaphore is
// unnamed. A name is at most 100 bytes long and isn't sent to ZooKeeper. Use only a few different names, because each
// one has its own metrics.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithKazoo gives the semaphore kazoo's layout, so that Python programs can share it unchanged. The option is off by
// default. Use it in every program on the path: if kazoo's layout and Curator's exist side by side, neither counts the
// other's leases. An acquisition that finds nodes of both fails with ErrForeignContender.
//
// With this option the limit is fixed, so you can't use [WithLimitNode]. The node at the path holds the limit as text,
// and is created with the one given to [New]. If it holds a different limit, acquisitions fail, as they do in kazoo.
//
// A kazoo lease can't be revoked. If a kazoo client's session expires while it is acquiring a lease, that client may
// exceed the limit: its request may be sent in the next session, after others have taken leases in its place.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the semaphore on path with the given limit. It sends no requests; the first Acquire creates missing
// nodes.
//
// Errors: a nil client; a path that is relative, malformed or the root; a limit below 1 or above 2147483647; with
// [WithLimitNode], also one whose four bytes are ASCII text; or an invalid option.
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
	l := newLimit(limit, path, cfg)
	shared, err := znode.NewSemaphore(client, path, cfg.Config, l.text())
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("semaphore: %w", err)
	}
	return &Semaphore{shared, path, l}, nil
}

// Acquire blocks until the caller holds n leases, and takes either all of them or none. Leases are granted first come,
// first served; a caller whose session ends while it is waiting rejoins the queue at the back. You can give ctx a
// deadline for the wait without limiting the hold, whose context inherits only ctx's values.
//
// Errors: before sending any request, an n that is below 1, above a limit that isn't kept in a node, or too large to
// fit into one request (thousands); later, [*zkrecipes.WaitError] if ctx is done first; ErrForeignContender;
// ErrSequenceExhausted; ErrClosed; a limit node that can't be read; or the server's error.
//
// Source: Curator's InterProcessSemaphoreV2, which takes leases one by one.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Acquire(ctx, s.leases(n))
}

// TryAcquire is like [Semaphore.Acquire], but never waits. It fails if there aren't enough leases, or if another caller
// is ahead of it in the queue, whether that caller is waiting or still acquiring its leases. As a result, concurrent
// calls may fail even when there are enough leases for all of them; if that is a problem, use Acquire with a short
// deadline. A call that fails leaves no node behind in ZooKeeper, with the exceptions that the package documentation
// describes.
//
// Errors: [*zkrecipes.BusyError] if it would have to wait; otherwise the same as for Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.shared.Try(ctx, s.leases(n))
}

// Do acquires n leases, calls fn, and releases them when fn returns or panics. The context passed to fn is derived from
// the hold, and is canceled when the hold ends or ctx is done, whichever comes first. If Do returns nil, the leases
// were held throughout the call to fn.
//
// After fn has returned, Do waits until the release is confirmed, but only until ctx is done, and for a second at most.
// The release then continues in the background.
//
// Errors: those from [Semaphore.Acquire], in which case fn isn't called; or an error from fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. If fn's error only reports that its context was
// canceled, the joined error has its text but doesn't match it, so that you never mistake a loss for a cancellation.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, s.acquire(n), fn)
}

// Run is like [Semaphore.Do], but starts over whenever the hold is lost: it waits for fn to return, acquires n leases
// again, and calls fn with the new hold. This means that fn must be able to start over as well. If Run returns nil, the
// leases were held throughout the final call to fn.
//
// If a hold lasted less than a second, Run backs off before it acquires again. The pause is 50 ms the first time and
// doubles each time up to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the backoff.
//
// An error from fn ends Run. The exception is an error that, after a loss, only reports the loss or that fn's context
// was done.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx); or
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

// Holders returns the leases that are held, oldest first. The list is at least as recent as the call. Leases that
// belong to one hold have the same token. The first waiter may already have created lease nodes for the leases it is
// waiting for; these aren't listed.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; or the server's error.
func (s *Semaphore) Holders(ctx context.Context) ([]zkrecipes.Participant, error) {
	return s.shared.List(ctx, func(ctx context.Context) int {
		limit, err := s.readLimit(ctx)
		if err != nil {
			return 0 // only decides whether the door is read too; a client that cannot reach the servers fails there
		}
		return limit
	})
}

// Queue returns the leases that are held, like [Semaphore.Holders], followed by one node for each waiter, in the order
// in which they will be granted their leases. The list is at least as recent as the call. A caller that is granted its
// leases during the call may appear both as a holder and as a waiter.
//
// Errors: the same as for [Semaphore.Holders].
func (s *Semaphore) Queue(ctx context.Context) ([]zkrecipes.Participant, error) {
	waiting, err := s.shared.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := s.Holders(ctx)
	return append(holders, waiting...), err
}

// Revoke asks all holders to release their leases, by closing each hold's [zkrecipes.Hold.Revoked] channel. Whether and
// when to comply is up to each holder. If there are no holders, Revoke is a no-op. Since the request replaces the
// leases' data, the holders' names no longer appear in [Semaphore.Holders].
//
// Errors: a kazoo lease, because its holder can't be asked; ErrUnknownOutcome if a reply was lost, after which you can
// call Revoke again; otherwise the same as for [Semaphore.Holders].
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
