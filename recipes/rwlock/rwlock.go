package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// RWLock is a lock that of all who use the same path any number of readers hold, or one writer. It has no state of its
// own: any number of goroutines may share one, and exclude each other as processes do.
type RWLock struct {
	queue *znode.Queue
	data  []byte
}

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the contenders, by which others see who holds and who waits; default the client's identity.
func WithData(data []byte) Option {
	return func(c *config) error {
		c.SetData(data)
		return nil
	}
}

// WithID is [WithData] with text. It need not be unique.
func WithID(id string) Option { return WithData([]byte(id)) }

// WithLossOnSuspend ends holds when the connection is lost. By default they run on to their deadline: a holder that is
// connected again in time keeps its hold.
func WithLossOnSuspend() Option {
	return func(c *config) error {
		c.LossOnSuspend = true
		return nil
	}
}

// New returns the read-write lock on path. It sends nothing; parents that are missing are made when somebody locks.
//
// Errors: a nil client, a path that is relative, malformed or the root, a bad option.
func New(c *conn.Client, path string, opts ...Option) (*RWLock, error) {
	var cfg config
	bad := recipe.Configure(c, &cfg, &cfg.Config, opts)
	queue, err := znode.New(c, path, cfg.LossOnSuspend, znode.Read, znode.Write)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("rwlock: %w", err)
	}
	return &RWLock{queue, cfg.Data}, nil
}

type acquire func(context.Context, znode.Entry) (*zkrecipes.Hold, error)

// Lock waits until the caller is the only one to hold the lock, after all readers and writers who came before it. With a
// context that descends from a live write hold on the same path it returns another hold on the same contender, at once.
// ctx bounds the waiting, not the hold; the hold's context has its values.
//
// After an error the caller is not in the line; what is left of it in ZooKeeper is being removed.
//
// Errors: ErrUpgrade, at once, if ctx descends from a live read hold and from no write hold on the same path: it would
// wait for its own end; ErrDeadlock, at once, if ctx descends from a live hold of another client on the same path;
// [*zkrecipes.WaitError] when ctx ends; ErrSequenceExhausted; ErrClosed; otherwise what the server said.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
func (l *RWLock) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Acquire)
}

// TryLock is [RWLock.Lock] for a caller that does not wait for others: after an error nothing of it is left in
// ZooKeeper, unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there are others; otherwise those of Lock.
func (l *RWLock) TryLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Try)
}

func (l *RWLock) write(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if h, ok := l.queue.Held(ctx, znode.Write); ok {
		return h, nil
	}
	if l.queue.Holds(ctx, znode.Read) {
		return nil, fmt.Errorf("%s: %w", l.queue.Path(), zkrecipes.ErrUpgrade)
	}
	return acquire(ctx, znode.Entry{Kind: znode.Write, Data: l.data, Rule: znode.First})
}

// RLock waits until no writer holds the lock that came before the caller; those who come later wait behind it. With a
// context that descends from a live read hold on the same path it returns another hold on the same contender, at once.
//
// With a context that descends from a live write hold it is the downgrade: the read hold is granted at once and takes
// the place of the writer, and its token, so that when the write hold is released readers get in and no writer does, until
// the read hold is released as well.
//
// Otherwise it is as [RWLock.Lock], and never returns ErrUpgrade.
//
// Source: Curator's InterProcessReadWriteLock from 5.5 on. An older one puts the reader at the end of the line, and lets
// a writer in.
func (l *RWLock) RLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Acquire)
}

// TryRLock is [RWLock.RLock] for a caller that does not wait for others: after an error nothing of it is left in
// ZooKeeper, unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if a writer holds or waits; otherwise those of RLock.
func (l *RWLock) TryRLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Try)
}

func (l *RWLock) read(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if h, ok := l.queue.Held(ctx, znode.Read); ok {
		return h, nil
	}
	e := znode.Entry{Kind: znode.Read, Data: l.data, Rule: znode.NoWriterAhead}
	if h, err := l.queue.Beside(ctx, znode.Write, e); !errors.Is(err, znode.ErrNotHeld) {
		return h, err
	}
	return acquire(ctx, e)
}

// Do takes the write lock, runs fn, waits for it, and unlocks, also when fn panics. The context of fn ends with the hold
// and with ctx, whichever is first, and descends from the hold: locks taken with it are nested. When Do returns nil, the
// lock was held from the first statement of fn to the last.
//
// Errors: those of [RWLock.Lock], and fn was not run; that of fn, joined with a [*zkrecipes.LostError] if the hold was
// lost before fn had returned.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return znode.Do(ctx, h, fn)
}

// RDo is [RWLock.Do] with the read lock.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	h, err := l.RLock(ctx)
	if err != nil {
		return err
	}
	return znode.Do(ctx, h, fn)
}

// Revoke asks all that hold the lock to let go, the writer or every reader: [zkrecipes.Hold.Revoked] of their holds is
// closed. Each holder decides whether it releases, and when. It is no error if there is none.
//
// Source: Curator's Revoker; the two understand each other.
func (l *RWLock) Revoke(ctx context.Context) error {
	contenders, err := l.Queue(ctx)
	if err != nil {
		return err
	}
	var holders []string
	for _, c := range contenders {
		if c.Holds {
			holders = append(holders, c.Path)
		}
	}
	return znode.RevokeAt(ctx, l.queue.Client(), holders...)
}

// Contender is a reader or a writer in the queue.
type Contender struct {
	zkrecipes.Participant
	// Write tells a writer from a reader.
	Write bool
	// Holds tells one that is let in, or about to find out that it is, from one that waits.
	Holds bool
}

// Queue returns all readers and writers, those who hold and those who wait, in the order of the line, as new as this
// call.
func (l *RWLock) Queue(ctx context.Context) ([]Contender, error) {
	participants, err := l.queue.List(ctx)
	if err != nil {
		return nil, err
	}
	contenders := make([]Contender, len(participants))
	writer := "" // the place of the writer furthest ahead
	for i, p := range participants {
		c := l.queue.Parse(p.Path)
		contenders[i] = Contender{
			Participant: p, Write: c.Kind == znode.Write,
			// A reader may stand at the place of its own writer.
			Holds: i == 0 || c.Kind == znode.Read && (writer == "" || writer == c.Key),
		}
		if writer == "" && c.Kind == znode.Write {
			writer = c.Key
		}
	}
	return contenders, nil
}
