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

// An RWLock is a lock that any number of readers on the same path, or a single writer, can hold at a time. It is
// stateless, so any number of goroutines may share one; they exclude each other just as processes do.
type RWLock struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the caller's node, which shows others who holds the lock and who waits. The default is the
// client's identity. If the data is text, it is also the [zkrecipes.Participant]'s Name. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds as soon as the connection is lost. By default a hold continues until its deadline, and
// is kept if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName names the lock for tracers, and therefore in metrics and traces; by default it has no name. Names are
// at most 100 bytes long and should come from a small set, because each has its own metrics. They are not sent to
// ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets calls to Lock through this object nest. If a call's context descends from a live write hold that
// the same client has on the same path, the call returns another hold on the same contender at once; by default Lock
// fails with ErrDeadlock there, and TryLock with a BusyError. Goroutines that lock with one hold's context then hold
// the lock together.
//
// The write lock is free once every hold on the contender is released. These holds share one token, and if one is lost,
// all are. Their other options are those of the object that locked first. RLock needs no option; see the package
// documentation.
//
// Source: Curator's InterProcessReadWriteLock, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the lock take kazoo's contenders into account, so that Python programs can share it; default off.
// kazoo must do the same for ours: pass extra_lock_patterns=["__WRIT__", "__READ__"] to each WriteLock there, and
// ["__WRIT__"] to each ReadLock, or else kazoo does not see them, and both sides hold the lock. Use the option in all
// programs on the path, since a program without it fails with ErrForeignContender when it meets a kazoo contender.
//
// A holder that uses kazoo cannot be revoked. A missing path is created as a plain node rather than a container.
//
// Readers that use kazoo before 2.9 wait even for writers behind them, and block forever (kazoo's issue 649).
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the read-write lock on path. It sends no request; the first call that locks creates missing parents.
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

// Lock blocks until the caller alone holds the lock, which is granted once all readers and writers ahead have left the
// queue. ctx can end the wait but does not affect the hold, whose context inherits only ctx's values. The package
// documentation describes what the holder's reads see, and what happens if the session ends while Lock waits.
//
// Errors: ErrUpgrade, at once, if ctx descends from a live read hold, and from no write hold, on the same path;
// ErrDeadlock, at once, if ctx descends from a live write hold on the same path, unless [WithReentrance] applies, or
// from any hold that another client has on it; [*zkrecipes.WaitError] if ctx ends; ErrForeignContender;
// ErrSequenceExhausted; ErrClosed; otherwise the server's error.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
func (l *RWLock) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Acquire)
}

// TryLock is like [RWLock.Lock], but fails instead of waiting for other contenders. If it fails, it leaves no node in
// ZooKeeper unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there are other contenders; otherwise as for Lock.
func (l *RWLock) TryLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Try)
}

func (l *RWLock) write(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if l.queue.Holds(ctx, znode.Read) && !l.queue.Holds(ctx, znode.Write) {
		return nil, fmt.Errorf("%s: %w", l.queue.Path(), zkrecipes.ErrUpgrade)
	}
	return acquire(ctx, asWriter)
}

// RLock blocks until all writers ahead of the caller have left the queue; later writers wait behind it. If ctx descends
// from a live read hold on the same path, it returns another hold on the same contender at once.
//
// If ctx descends from a live write hold, RLock downgrades: it grants the read hold at once, in the writer's place in
// the queue and with its token. When you then release the write hold, waiting readers acquire the lock, but no writer
// does until you release the read hold too. Use this to keep reading what you have just written.
//
// In all other respects RLock is like [RWLock.Lock].
//
// Errors: as for Lock, except ErrUpgrade.
//
// Source: Curator's InterProcessReadWriteLock since 5.5. Older releases put the reader at the end of the queue, so a
// writer can acquire the lock in between.
func (l *RWLock) RLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Acquire)
}

// TryRLock is like [RWLock.RLock], but fails instead of waiting for other contenders. If it fails, it leaves no node in
// ZooKeeper unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if a writer holds or waits; otherwise as for RLock.
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

// Do acquires the write lock, calls fn, and unlocks when fn returns or panics. fn's context descends from the hold, and
// is canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the lock was held from fn's first
// statement to its last.
//
// Errors: those from [RWLock.Lock], in which case fn is not called; an error from fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. If fn's error only reports that its context was
// canceled, the joined error has its text but does not match it, so that you never mistake a loss for a cancellation.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.Lock, fn)
}

// RDo is like [RWLock.Do], but acquires the read lock.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.RLock, fn)
}

// Run is like [RWLock.Do], but starts over after each loss: it waits for fn to return, locks again, and calls fn with
// the new hold, whose token is larger. fn must therefore be able to start over. If Run returns nil, the lock was held
// from the first statement of the last call to fn until its last.
//
// If a hold lasted less than a second, Run backs off before it locks again: 50 ms the first time, doubling each time up
// to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the back-off.
//
// An error from fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx);
// those from [RWLock.Lock] except ErrAuthFailed, after which Run backs off and retries.
func (l *RWLock) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.Lock, fn)
}

// RRun is like [RWLock.Run], but acquires the read lock.
func (l *RWLock) RRun(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, l.RLock, fn)
}

// Part returns the write lock as an argument for multilock.LockAll, which acquires several locks together.
func (l *RWLock) Part() zkrecipes.Part { return l.part(l.Lock) }

// RPart is like [RWLock.Part], but returns the read lock.
func (l *RWLock) RPart() zkrecipes.Part { return l.part(l.RLock) }

// part returns both locks with one kind, because a caller that wants both would wait for itself.
func (l *RWLock) part(acquire func(context.Context) (*zkrecipes.Hold, error)) zkrecipes.Part {
	return hold.Part{Client: l.queue.Client(), Path: l.queue.Path(), Kind: znode.Write, Acquire: acquire}.Public()
}

// Revoke asks the writer or all readers that hold the lock to release it, by closing each hold's
// [zkrecipes.Hold.Revoked] channel. Each holder decides whether and when to do so. If nobody holds the lock, Revoke is
// a no-op. The request replaces the holders' data, so their names no longer appear in [RWLock.Queue].
//
// Errors: a holder that uses kazoo, which cannot be asked; ErrUnknownOutcome if a reply was lost, after which you can
// call Revoke again; otherwise as for [RWLock.Queue].
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

// Path returns the lock's path.
func (l *RWLock) Path() string { return l.queue.Path() }

// Queue returns all readers and writers, both holders and waiters, in queue order. The list is no older than this call.
// If the lock is free, the list is empty, without an error.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; otherwise the server's error.
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
