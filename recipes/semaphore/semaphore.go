package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Semaphore is a number of leases that all who use the same path share. It keeps nothing but its settings: any number of
// goroutines may share one, and count as processes do.
type Semaphore struct {
	pool  *znode.Pool
	path  string
	limit limit
	data  []byte
	over  sync.Once
}

// Option configures [New].
type Option func(*config) error

type config struct {
	data          []byte
	limitNode     string
	lossOnSuspend bool
}

// WithData sets the data of the leases, by which others see who holds them; default the client's identity.
func WithData(data []byte) Option {
	return func(c *config) error {
		c.data = append([]byte{}, data...)
		return nil
	}
}

// WithLossOnSuspend ends holds when the connection is lost. By default they run on to their deadline, and a holder that
// is back in time remains one.
func WithLossOnSuspend() Option {
	return func(c *config) error {
		c.lossOnSuspend = true
		return nil
	}
}

// WithLimitNode keeps the limit in the node at path, which is followed while the semaphore is used. If it is missing it
// is made, with the limit given to [New]. A limit of 0 or less in it lets nobody in.
//
// Source: Curator's SharedCount; the node holds four bytes, big-endian.
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

// New returns the semaphore on path, with limit leases. It sends nothing; nodes that are missing are made when somebody
// acquires.
//
// Errors: a nil client, a path that is relative, malformed or the root, a limit below 1, a bad option.
func New(c *conn.Client, path string, limit int, opts ...Option) (*Semaphore, error) {
	var cfg config
	if c != nil {
		cfg.data = []byte(c.Identity())
	}
	errs := []error{checkLimit(limit)}
	for _, opt := range opts {
		errs = append(errs, opt(&cfg))
	}
	pool, err := znode.NewPool(c, path, cfg.lossOnSuspend)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("semaphore: %w", err)
	}
	s := &Semaphore{pool: pool, path: path, data: cfg.data}
	s.limit.seed, s.limit.node = limit, cfg.limitNode
	return s, nil
}

// Acquire waits until the caller holds n leases: all or none, and in order, first come, first served. One whose session
// ends meanwhile queues again, at the end of the line, in the next. ctx bounds the waiting, not the hold; the hold's
// context has its values.
//
// After an error the caller holds no lease; what is left of it in ZooKeeper is being removed.
//
// Errors: n below 1, above the limit, unless that is in a node and may be raised, or more than fit into one request
// (thousands), all at once; [*zkrecipes.WaitError] when ctx ends; ErrSequenceExhausted; ErrClosed; a limit node that
// cannot be read; otherwise what the server said.
//
// Source: Curator's InterProcessSemaphoreV2, which takes leases one by one.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.pool.Acquire(ctx, s.entry(n))
}

// TryAcquire is [Semaphore.Acquire] for a caller that does not wait until leases are given back; it does wait for others
// who are just taking theirs, as long as there are enough for it too. After an error nothing of it is left in ZooKeeper,
// unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there are not enough; otherwise those of Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zkrecipes.Hold, error) {
	if err := s.check(n); err != nil {
		return nil, err
	}
	return s.pool.Try(ctx, s.entry(n))
}

// Do acquires n leases, runs fn, waits for it, and releases them, also when fn panics. The context of fn ends with the
// hold and with ctx, whichever is first. When Do returns nil, the leases were held from the first statement of fn to the
// last.
//
// Errors: those of [Semaphore.Acquire], and fn was not run; that of fn, joined with a [*zkrecipes.LostError] if the hold
// was lost before fn had returned.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	h, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return znode.Do(ctx, h, fn)
}

// Holders returns the leases that are out, the oldest first, as new as this call. Those of one hold have the same token.
// Whoever is first in line has its leases made already while it waits for others to go: these are then the last.
func (s *Semaphore) Holders(ctx context.Context) ([]zkrecipes.Participant, error) {
	return s.pool.List(ctx)
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

func (s *Semaphore) entry(n int) znode.Entry {
	return znode.Entry{
		Kind: znode.Lease, Data: s.data, Count: n,
		Look: func(ctx context.Context, session *session.Session) (znode.Rule, znode.Changes, error) {
			limit, w, err := s.limit.follow(ctx, session)
			if err != nil {
				return nil, znode.Changes{}, fmt.Errorf("limit of %s: %w", s.path, err)
			}
			within := znode.Within(limit, n)
			return func(queue []znode.Contender, me int) (int, bool) {
				s.compare(me, limit)
				return within(queue, me)
			}, znode.Changes{w}, nil
		},
	}
}

// compare reports that others ahead have been granted more than the limit; one that was lowered makes that legal.
func (s *Semaphore) compare(others, limit int) {
	if others <= limit || s.limit.node != "" {
		return
	}
	s.over.Do(func() {
		s.pool.Client().Logger().Warn("zookeeper: more leases are out than our limit: others use a larger one",
			"path", s.path, "limit", limit, "leases", others)
	})
}
