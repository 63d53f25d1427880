package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// RWLock is a lock that any number of readers on the same path hold, or one writer. It has no state: any number of
// goroutines may share one, and exclude each other as processes do.
type RWLock struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the contenders, by which others see who holds and who waits; default the client's identity. Text is the Name of a
// [zkrecipes.Participant], too. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds when the connection is lost. By default they run on to their deadline: a holder that is
// connected again in time keeps its hold.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName sets the name by which tracers, and so metrics and traces, know the lock; default none. It has at most
// 100 bytes, and should be one of few: each name has its own metrics. ZooKeeper does not see it.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets a Lock through this object nest: if its context descends from a live write hold of the same client on the
// same path, it returns another hold on the same contender, at once. Default off: Lock is ErrDeadlock there, and TryLock a
// BusyError. Goroutines that lock with the context of one hold are then inside together.
//
// The write lock is free when all holds on the contender have been released. They have one token, and end together if they
// are lost. The other options are those of the object that locked first. RLock needs no option: see the package.
//
// Source: Curator's InterProcessReadWriteLock, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the lock count the contenders of kazoo, so that programs in Python share it; default off. kazoo must count
// those of this library too: give each WriteLock there extra_lock_patterns=["__WRIT__", "__READ__"], and
// each ReadLock ["__WRIT__"]. Without them kazoo does not see this side, and both hold.
//
// Use the option in all programs on the path. A program without it fails with ErrForeignContender when it meets a contender
// of kazoo.
//
// A holder of kazoo cannot be revoked. If the path is missing, it is created as a plain node and not as a container.
//
// Readers of kazoo before 2.9 wait for writers behind them, and block for ever (its issue 649).
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the read-write lock on path. It sends nothing; the first lock creates missing parents.
//
// Errors: a nil client, a path that is relative, malformed or the root, a bad option.
func New(c *conn.Client, path string, opts ...Option) (*RWLock, error) {
	client := (*client.Client)(c)
	cfg := config{recipe.Defaults(client)}
	bad := recipe.Apply(&cfg, opts)
	queue, err := znode.New(client, path, cfg.Config, znode.Read, znode.Write)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("rwlock: %w", err)
	}
	return &RWLock{queue}, nil
}

// What readers and writers queue with.
var (
	asReader = znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead, As: "rwlock-read"}
	asWriter = znode.Entry{Kind: znode.Write, Rule: znode.First, As: "rwlock-write"}
)

type acquire func(context.Context, znode.Entry) (*zkrecipes.Hold, error)

// Lock waits until the caller alone holds the lock: all readers and writers before it have left. If the session ends meanwhile, the
// caller queues again in the next session, at the end of the queue. ctx bounds the waiting, not the hold. The hold's context has the
// values of ctx.
//
// While the hold lasts, reads of the same client see all that the last holder wrote in ZooKeeper before its hold ended: the
// server that answers has applied the end of that hold. If the last hold was of the same session, they see each of its
// writes that was answered.
//
// On error the caller is out of the queue. Its node is deleted in the background.
//
// Errors: ErrUpgrade, at once, if ctx descends from a live read hold, and from no write hold, on the same path; ErrDeadlock, at
// once, if ctx descends from a live write hold on the same path, unless [WithReentrance] applies, or from any hold of another
// client on it; [*zkrecipes.WaitError] when ctx ends; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise what the
// server said.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
func (l *RWLock) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Acquire)
}

// TryLock is [RWLock.Lock] without waiting for other contenders. On error no node of the call is left in ZooKeeper, unless
// ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there are other contenders; otherwise those of Lock.
func (l *RWLock) TryLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Try)
}

func (l *RWLock) write(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if l.queue.Holds(ctx, znode.Read) && !l.queue.Holds(ctx, znode.Write) {
		return nil, fmt.Errorf("%s: %w", l.queue.Path(), zkrecipes.ErrUpgrade)
	}
	return acquire(ctx, asWriter)
}

// RLock waits until all writers before the caller have left; later writers wait behind it. If ctx descends from a live read
// hold on the same path, it returns another hold on the same contender at once.
//
// If ctx descends from a live write hold, RLock downgrades. The read hold is granted at once, and takes the place of the
// writer and its token. When the write hold is released, readers get in, and no writer until the read hold is released
// too.
//
// In all else it is as [RWLock.Lock].
//
// Errors: those of Lock, but for ErrUpgrade.
//
// Source: Curator's InterProcessReadWriteLock from 5.5 on. Before 5.5 it puts the reader at the end of the queue, and lets
// a writer in.
func (l *RWLock) RLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Acquire)
}

// TryRLock is [RWLock.RLock] without waiting for other contenders. On error no node of the call is left in ZooKeeper,
// unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if a writer holds or waits; otherwise those of RLock.
func (l *RWLock) TryRLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Try)
}

func (l *RWLock) read(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if h, ok := l.queue.Held(ctx, znode.Read); ok {
		return h, nil
	}
	if h, err := l.queue.Downgrade(ctx, znode.Write, asReader); !errors.Is(err, znode.ErrNotHeld) {
		return h, err
	}
	return acquire(ctx, asReader)
}

// Do takes the write lock, runs fn, waits for it, and unlocks, also when fn panics. The context of fn ends with the hold
// and with ctx, whichever is first, and descends from the hold. When Do returns nil, the lock was held from the first
// statement of fn to the last.
//
// Errors: the errors of [RWLock.Lock], and fn was not run; the error of fn, joined with a [*zkrecipes.LostError] if the hold
// was lost before fn had returned. A loss is never hidden behind a cancellation: of an error that only says that the context
// of fn had ended, the text alone is left beside the loss.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.Lock, fn)
}

// RDo is [RWLock.Do] with the read lock.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.RLock, fn)
}

// Run is [RWLock.Do], again after each loss: Run waits for fn, locks again, and calls fn anew with the new hold, whose token is
// larger. So fn must be able to begin again. When Run returns nil, the lock was held from the first statement of the last
// call of fn to its last.
//
// If a hold lasted for less than a second, Run waits before it locks again: 50 ms the first time, twice as long after each
// further one, 5 s at most, a random half more or less. A longer hold starts this anew.
//
// An error of fn ends Run, unless the hold was lost and the error only says so, or says that the context of fn had ended.
//
// Errors: the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; the cause of ctx; the errors of
// [RWLock.Lock] but ErrAuthFailed, after which Run tries again with pauses.
func (l *RWLock) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.Lock, fn)
}

// RRun is [RWLock.Run] with the read lock.
func (l *RWLock) RRun(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.RLock, fn)
}

// Revoke asks the writer, or every reader, that holds the lock to release: [zkrecipes.Hold.Revoked] of the hold is closed.
// Each holder decides whether it releases, and when. It is no error if there is none. The request replaces the data of the
// holders, so [RWLock.Queue] shows their names no more.
//
// Errors: a holder of kazoo, which cannot be asked; otherwise those of [RWLock.Queue].
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
	// Holds tells a holder, or a contender that will find out next that it is one, from a waiter.
	Holds bool
}

// Path returns the path of the lock.
func (l *RWLock) Path() string { return l.queue.Path() }

// Queue returns all readers and writers, holders and waiters, in the order of the queue, as new as this call. A free lock has
// none, and that is no error.
//
// Errors: the cause of ctx, with what is in the way; ErrClosed; otherwise what the server said.
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
			Participant: p, Write: c.Writes(),
			// A reader may stand at the place of its own writer.
			Holds: i == 0 || !c.Writes() && (writer == "" || writer == c.Key),
		}
		if writer == "" && c.Writes() {
			writer = c.Key
		}
	}
	return contenders, nil
}
