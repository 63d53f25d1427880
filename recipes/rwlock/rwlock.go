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
// stateless, so any number of goroutines can share one; they exclude each other just as processes do.
type RWLock struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the caller's node, which lets others see who holds the lock and who is waiting. It defaults
// to the client's identity and doesn't have to be unique. If the data is text, it is also the [zkrecipes.Participant]'s
// Name.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds as soon as the connection is lost. By default, a hold stays valid until its deadline,
// and survives the disconnect if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName sets the name that identifies the lock in metrics and traces. By default, the lock is unnamed. A name
// is at most 100 bytes long and isn't sent to ZooKeeper. Use only a few different names, because each one has its own
// metrics.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets calls to Lock on this RWLock nest. If a call's context is derived from a live write hold that the
// same client has on the same path, the call immediately returns another hold on the same contender. Without this
// option, Lock fails there with ErrDeadlock, and TryLock with a BusyError. Note that goroutines that lock with the same
// hold's context then hold the lock together.
//
// The write lock is free once every hold on the contender has been released. These holds share one token, and if one of
// them is lost, all of them are. Their other options are those of the RWLock that locked first. RLock doesn't need this
// option; see the package documentation.
//
// Source: Curator's InterProcessReadWriteLock, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the lock take kazoo's contenders into account, so that Python programs can share it. The option is
// off by default. For exclusion to work in both directions, kazoo must also see our contenders: pass
// extra_lock_patterns=["__WRIT__", "__READ__"] to each WriteLock there, and ["__WRIT__"] to each ReadLock, or else both
// sides can hold the lock at the same time. Use the option in every program on the path, because a program without it
// fails with ErrForeignContender when it meets a kazoo contender.
//
// A holder that uses kazoo can't be revoked. A missing path is created as a plain node instead of a container.
//
// In kazoo before 2.9, readers wait even for writers behind them, and block forever (kazoo's issue 649).
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// New returns the read-write lock on path. It sends no requests; the first call that locks creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; or an invalid option.
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
	asReader = znode.Entry{Kind: znode.Read, Rule: znode.NoWriterAhead, As: "rwlock-read", From: znode.Write}
	asWriter = znode.Entry{Kind: znode.Write, Rule: znode.First, As: "rwlock-write"}
)

type acquire func(context.Context, znode.Entry) (*zkrecipes.Hold, error)

// Lock blocks until the caller alone holds the lock, which is granted once all readers and writers ahead have left the
// queue. It stops waiting when ctx is done, but ctx doesn't affect the hold; the hold's context inherits only ctx's
// values. The package documentation describes what the holder's reads see, and what happens if the session ends while
// Lock waits.
//
// Errors: ErrUpgrade, immediately, if ctx is derived from a live read hold, but not from a write hold, on the same
// path; ErrDeadlock, immediately, if ctx is derived from a live write hold on the same path, unless [WithReentrance]
// applies, or from any hold that another client has on it; [*zkrecipes.WaitError] if ctx is done first;
// ErrForeignContender; ErrSequenceExhausted; ErrClosed; or the server's error.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
func (l *RWLock) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Acquire)
}

// TryLock is like [RWLock.Lock], but fails instead of waiting for other contenders. A call that fails leaves no node
// behind in ZooKeeper, with the exceptions that the package documentation describes.
//
// Errors: [*zkrecipes.BusyError] if there are other contenders; otherwise the same as for Lock.
func (l *RWLock) TryLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.write(ctx, l.queue.Try)
}

func (l *RWLock) write(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if l.queue.Holds(ctx, znode.Read) && !l.queue.Holds(ctx, znode.Write) {
		return nil, fmt.Errorf("%s: %w", l.queue.Path(), zkrecipes.ErrUpgrade)
	}
	return acquire(ctx, asWriter)
}

// RLock blocks until all writers ahead of the caller have left the queue; later writers wait behind it. If ctx is
// derived from a live read hold on the same path, RLock immediately returns another hold on the same contender.
//
// If ctx is derived from a live write hold, RLock downgrades: it immediately grants the read hold, in the writer's
// place in the queue and with its token. When you then release the write hold, waiting readers acquire the lock, but no
// writer does until you release the read hold too. This lets you keep reading what you have just written.
//
// In all other respects RLock is like [RWLock.Lock].
//
// Errors: the same as for Lock, except ErrUpgrade.
//
// Source: Curator's InterProcessReadWriteLock since 5.5. Older releases put the reader at the end of the queue, so a
// writer can acquire the lock in between.
func (l *RWLock) RLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Acquire)
}

// TryRLock is like [RWLock.RLock], but fails instead of waiting for other contenders. A call that fails leaves no node
// behind in ZooKeeper, with the exceptions that the package documentation describes.
//
// Errors: [*zkrecipes.BusyError] if a writer holds the lock or waits for it; otherwise the same as for RLock.
func (l *RWLock) TryRLock(ctx context.Context) (*zkrecipes.Hold, error) {
	return l.read(ctx, l.queue.Try)
}

func (l *RWLock) read(ctx context.Context, acquire acquire) (*zkrecipes.Hold, error) {
	if h, ok := l.queue.Held(ctx, znode.Read); ok {
		return h, nil
	}
	return acquire(ctx, asReader)
}

// Do acquires the write lock, calls fn, and unlocks when fn returns or panics. The context passed to fn is derived from
// the hold, and is canceled when the hold ends or ctx is done, whichever comes first. If Do returns nil, the lock was
// held throughout the call to fn.
//
// After fn has returned, Do waits until the release is confirmed, but only until ctx is done, and for a second at most.
// The release then continues in the background.
//
// Errors: those from [RWLock.Lock], in which case fn isn't called; or an error from fn, joined with a
// [*zkrecipes.LostError] if the hold was lost before fn returned. If fn's error only reports that its context was
// canceled, the joined error has its text but doesn't match it, so that you never mistake a loss for a cancellation.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.Lock, fn)
}

// RDo is like [RWLock.Do], but acquires the read lock.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, l.RLock, fn)
}

// Run is like [RWLock.Do], but starts over whenever the hold is lost: it waits for fn to return, locks again, and calls
// fn with the new hold, whose token is larger. This means that fn must be able to start over as well. If Run returns
// nil, the lock was held throughout the final call to fn.
//
// If a hold lasted less than a second, Run backs off before it locks again. The pause is 50 ms the first time and
// doubles each time up to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the backoff.
//
// An error from fn ends Run. The exception is an error that, after a loss, only reports the loss or that fn's context
// was done.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx); or
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

// part gives both locks the same kind, because a caller that wants both would wait for itself.
func (l *RWLock) part(acquire func(context.Context) (*zkrecipes.Hold, error)) zkrecipes.Part {
	return hold.Part{Client: l.queue.Client(), Path: l.queue.Path(), Kind: znode.Write, Acquire: acquire}.Public()
}

// Revoke asks the writer or all readers that hold the lock to release it, by closing each hold's
// [zkrecipes.Hold.Revoked] channel. Whether and when to comply is up to each holder. If nobody holds the lock, Revoke
// is a no-op. Since the request replaces the holders' data, their names no longer appear in [RWLock.Queue].
//
// Errors: a holder that uses kazoo, because it can't be asked; ErrUnknownOutcome if a reply was lost, after which you
// can call Revoke again; otherwise the same as for [RWLock.Queue].
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
	// Holds reports whether the contender holds the lock, or is about to find out that it does; otherwise it is waiting.
	Holds bool
}

// Path returns the lock's path.
func (l *RWLock) Path() string { return l.queue.Path() }

// Queue returns all readers and writers, both holders and waiters, in queue order. The list is at least as recent as
// the call. If the lock is free, the list is empty and the error is nil.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; or the server's error.
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
			// A reader may have the place of its own writer. Past the end of the sequence, equal numbers are not one place.
			Holds: i == 0 || !c.Writes() && (writer == "" || writer == c.Key && !c.Exhausted()),
		}
		if writer == "" && c.Writes() {
			writer = c.Key
		}
	}
	return contenders, nil
}
