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

// RWLock is a lock that any number of readers on the same path hold, or a single writer. It is stateless: any number of
// goroutines may share one, and they exclude each other just as processes do.
type RWLock struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the contenders, which shows others who holds and who waits; the default is the client's
// identity. If it is text, it is also the Name of a [zkrecipes.Participant]. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds when the connection is lost. By default they continue until their deadline, and a holder
// that reconnects in time keeps its hold.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the lock; by default it has no
// name. The name has at most 100 bytes and should come from a small set, because each name has its own metrics. It is
// not sent to ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance allows nested calls of Lock through this object: if the context of a call descends from a live write
// hold of the same client on the same path, the call returns another hold on the same contender at once. By default
// Lock fails with ErrDeadlock there, and TryLock with a BusyError. Goroutines that lock with the context of one hold
// then hold the lock together.
//
// The write lock is free once all holds on the contender have been released. They share one token, and end together if
// they are lost. The other options are those of the object that locked first. RLock needs no option: see the package
// documentation.
//
// Source: Curator's InterProcessReadWriteLock, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the lock count the contenders of kazoo, so that Python programs can share it; default off. kazoo must
// count those of this library too: pass extra_lock_patterns=["__WRIT__", "__READ__"] to each WriteLock there, and
// ["__WRIT__"] to each ReadLock. Without them kazoo does not see this side, and both hold the lock.
//
// Use the option in all programs on the path: a program without it fails with ErrForeignContender when it meets a
// contender of kazoo.
//
// A holder that uses kazoo cannot be revoked. A missing path is created as a plain node, not as a container.
//
// Readers of kazoo before 2.9 wait for writers behind them, and block forever (its issue 649).
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the read-write lock on path. It sends nothing; the first lock creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; an invalid option.
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

// These are the entries with which readers and writers queue.
var (
	asReader = znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead, As: "rwlock-read"}
	asWriter = znode.Entry{Kind: znode.Write, Rule: znode.First, As: "rwlock-write"}
)

type acquire func(context.Context, znode.Entry) (*zkrecipes.Hold, error)

// Lock blocks until the caller alone holds the lock, which is granted when all readers and writers ahead of it have
// left. If the session ends in the meantime, the caller queues again in the next session, at the end of the queue. ctx
// bounds the wait, not the hold; the hold's context carries the values of ctx. The package documentation describes what
// the holder's reads see.
//
// On error the caller is out of the queue, and its node is deleted in the background.
//
// Errors: ErrUpgrade, at once, if ctx descends from a live read hold, and from no write hold, on the same path;
// ErrDeadlock, at once, if ctx descends from a live write hold on the same path, unless [WithReentrance] applies, or
// from any hold of another client on it; [*zkrecipes.WaitError] if ctx ends; ErrForeignContender; ErrSequenceExhausted;
// ErrClosed; otherwise the error of the server.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
func (l *RWLock) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Acquire)
}

// TryLock is like [RWLock.Lock], but does not wait for other contenders. On error it leaves no node in ZooKeeper,
// unless ctx ended first.
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

// RLock blocks until all writers ahead of the caller have left; later writers wait behind it. If ctx descends from a
// live read hold on the same path, it returns another hold on the same contender at once.
//
// If ctx descends from a live write hold, RLock downgrades: the read hold is granted at once, and takes the place and
// the token of the writer. When the write hold is released, readers acquire the lock, but no writer does until the read
// hold is released too.
//
// In all other respects it is like [RWLock.Lock].
//
// Errors: those of Lock, except ErrUpgrade.
//
// Source: Curator's InterProcessReadWriteLock from 5.5 on. Before 5.5 it puts the reader at the end of the queue, so a
// writer can acquire the lock in between.
func (l *RWLock) RLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Acquire)
}

// TryRLock is like [RWLock.RLock], but does not wait for other contenders. On error it leaves no node in ZooKeeper,
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

// Do acquires the write lock, calls fn, and unlocks when fn returns or panics. The context of fn descends from the
// hold, and is canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the lock was held from the
// first statement of fn to the last.
//
// Errors: the errors of [RWLock.Lock], in which case fn was not called; the error of fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. A cancellation never hides a loss: an error that only
// reports the end of fn's context is reduced to its text in the joined error.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.Lock, fn)
}

// RDo is like [RWLock.Do], but acquires the read lock.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.RLock, fn)
}

// Run is like [RWLock.Do], but starts over after each loss: it waits for fn to return, locks again, and calls fn with
// the new hold, whose token is larger. fn must therefore be able to start again. If Run returns nil, the lock was held
// from the first statement of the last call of fn to its last.
//
// If a hold lasted less than a second, Run backs off before it locks again: 50 ms the first time, doubling each time up
// to 5 s, with a random half more or less. A longer hold resets the back-off.
//
// An error of fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; the cause of ctx; the
// errors of [RWLock.Lock] except ErrAuthFailed, after which Run retries with pauses.
func (l *RWLock) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.Lock, fn)
}

// RRun is like [RWLock.Run], but acquires the read lock.
func (l *RWLock) RRun(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.RLock, fn)
}

// Part returns the write lock as one of several locks for multilock.LockAll.
func (l *RWLock) Part() zkrecipes.Part { return l.part(l.Lock) }

// RPart is like [RWLock.Part], but returns the read lock.
func (l *RWLock) RPart() zkrecipes.Part { return l.part(l.RLock) }

// part returns both locks with one kind, because a caller that wants both would wait for itself.
func (l *RWLock) part(acquire func(context.Context) (*zkrecipes.Hold, error)) zkrecipes.Part {
	return hold.Part{Client: l.queue.Client(), Path: l.queue.Path(), Kind: znode.Write, Acquire: acquire}.Public()
}

// Revoke asks the writer, or every reader, that holds the lock to release, by closing the [zkrecipes.Hold.Revoked]
// channel of the hold. Each holder decides whether and when to release. Without a holder, Revoke is a no-op. The
// request replaces the data of the holders, so [RWLock.Queue] no longer shows their names.
//
// Errors: a holder that uses kazoo, which cannot be asked; otherwise those of [RWLock.Queue].
//
// Source: Curator's Revoker; the two are compatible.
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
	// Write reports whether the contender is a writer; otherwise it is a reader.
	Write bool
	// Holds reports whether the contender holds the lock, or is about to find out that it does; otherwise it waits.
	Holds bool
}

// Path returns the path of the lock.
func (l *RWLock) Path() string { return l.queue.Path() }

// Queue returns all readers and writers, holders and waiters, in the order of the queue. The list is no older than this
// call. The queue of a free lock is empty, which is not an error.
//
// Errors: the cause of ctx, with what the call was waiting for; ErrClosed; otherwise the error of the server.
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
			// A reader may have the place of its own writer.
			Holds: i == 0 || !c.Writes() && (writer == "" || writer == c.Key),
		}
		if writer == "" && c.Writes() {
			writer = c.Key
		}
	}
	return contenders, nil
}
