package mutex

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

// A Mutex is a lock that at most one caller on the same path holds at a time. It is stateless, so any number of
// goroutines may share one; they exclude each other just as processes do.
type Mutex struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the caller's node, which shows others who holds the lock and who waits. The default is the
// client's identity. If the data is text, it is also the [zkrecipes.Participant]'s Name. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds as soon as the connection is lost. By default a hold continues until its deadline, and
// is kept if the client reconnects in time.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName names the mutex for tracers, and therefore in metrics and traces; by default it has no name. Names are
// at most 100 bytes long and should come from a small set, because each has its own metrics. They are not sent to
// ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets calls through this object nest. If a call's context descends from a live hold that the same
// client has on the same path, the call returns another hold on the same contender at once; by default Lock fails with
// ErrDeadlock there, and TryLock with a BusyError. Goroutines that lock with one hold's context then hold the lock
// together.
//
// The mutex is free once every hold on the contender is released. These holds share one token, and if one is lost, all
// are. Their other options are those of the mutex that was locked first.
//
// Source: Curator's InterProcessMutex, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the mutex take kazoo's contenders into account, so that Python programs can share it; default off.
// kazoo must do the same for ours: pass extra_lock_patterns=["lock-"] to each Lock there, or else kazoo does not see
// them, and both sides hold the lock. Use the option in all programs on the path, since a program without it fails with
// ErrForeignContender when it meets a kazoo contender.
//
// A holder that uses kazoo cannot be revoked. A missing path is created as a plain node rather than a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithHandOver determines when a waiter prepares for its grant; the default is [zkrecipes.HandOverLazy]. The other
// values help when more than two sessions contend for short critical sections, most of all if the servers are far away.
// They change nothing if only two contend at a time or all belong to one session, and have no effect together with
// [WithKazoo]. Programs with different values may share the path.
func WithHandOver(when zkrecipes.HandOver) Option { return recipe.HandOver[*config](when) }

// New returns the mutex on path. It sends no request; the first Lock creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; an invalid option.
func New(c *conn.Client, path string, opts ...Option) (*Mutex, error) {
	client := (*client.Client)(c)
	cfg := config{recipe.Defaults(client)}
	bad := recipe.Apply(&cfg, opts)
	queue, err := znode.New(client, path, cfg.Config, znode.Lock)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("mutex: %w", err)
	}
	return &Mutex{queue}, nil
}

var entry = znode.Entry{Kind: znode.Lock, Rule: znode.First, As: "mutex"}

// Lock blocks until the caller holds the mutex, which is granted once everyone ahead has left the queue. If the session
// ends while waiting, Lock rejoins the queue at the back in the next session. To limit how long Lock waits, pass a
// context with a deadline; the deadline does not limit the hold, whose context inherits only ctx's values. The package
// documentation describes what the holder's reads see.
//
// Errors: [*zkrecipes.WaitError] if ctx ends; ErrDeadlock, at once, if ctx descends from a live hold on the same path,
// unless [WithReentrance] applies; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise the server's error.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessMutex.
func (m *Mutex) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return m.queue.Acquire(ctx, entry)
}

// TryLock is like [Mutex.Lock], but fails instead of waiting for other contenders. If it fails, it leaves no node in
// ZooKeeper unless ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there is a holder or a waiter, even if ctx descends from that hold, unless
// [WithReentrance] applies; otherwise as for Lock.
func (m *Mutex) TryLock(ctx context.Context) (*zkrecipes.Hold, error) { return m.queue.Try(ctx, entry) }

// Do locks the mutex, calls fn, and unlocks when fn returns or panics. fn's context descends from the hold, and is
// canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the mutex was held from fn's first
// statement to its last.
//
// Errors: those from Lock, in which case fn is not called; an error from fn, joined with a [*zkrecipes.LostError] if
// the hold was lost before fn returned. A cancellation never hides a loss: if fn's error only reports that its context
// was canceled, the joined error has its text but does not match it.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, m.Lock, fn)
}

// Run is like [Mutex.Do], but starts over after each loss: it waits for fn to return, locks again, and calls fn with
// the new hold, whose token is larger. fn must therefore be able to start over. If Run returns nil, the mutex was held
// from the first statement of the last call to fn until its last.
//
// If a hold lasted less than a second, Run backs off before it locks again: 50 ms the first time, doubling each time up
// to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the back-off.
//
// An error from fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx);
// those from Lock except ErrAuthFailed, after which Run backs off and retries.
func (m *Mutex) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, m.Lock, fn)
}

// Part returns the mutex as an argument for multilock.LockAll, which acquires several locks together.
func (m *Mutex) Part() zkrecipes.Part {
	return hold.Part{Client: m.queue.Client(), Path: m.queue.Path(), Kind: znode.Lock, Acquire: m.Lock}.Public()
}

// Path returns the mutex's path.
func (m *Mutex) Path() string { return m.queue.Path() }

// Queue returns the holder, followed by the waiters in the order in which they will be granted the lock. The list is no
// older than this call. If the mutex is free, the list is empty, without an error.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; otherwise the server's error.
func (m *Mutex) Queue(ctx context.Context) ([]zkrecipes.Participant, error) { return m.queue.List(ctx) }

// Revoke asks the holder to release the mutex by closing its hold's [zkrecipes.Hold.Revoked] channel. The holder
// decides whether and when to do so. If nobody holds the mutex, Revoke is a no-op. The request replaces the holder's
// data, so its name no longer appears in [Mutex.Queue].
//
// Errors: a holder that uses kazoo, which cannot be asked; ErrUnknownOutcome if the reply was lost, after which you can
// call Revoke again; otherwise as for [Mutex.Queue].
//
// Source: Curator's Revoker; the two are compatible.
func (m *Mutex) Revoke(ctx context.Context) error { return m.queue.Revoke(ctx) }
