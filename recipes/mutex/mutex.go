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
// goroutines can share one; they exclude each other just as processes do.
type Mutex struct{ queue *znode.Queue }

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

// WithTracerName sets the name that identifies the mutex in metrics and traces. By default, the mutex is unnamed. A
// name is at most 100 bytes long and isn't sent to ZooKeeper. Use only a few different names, because each one has its
// own metrics.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets calls on this Mutex nest. If a call's context is derived from a live hold that the same client
// has on the same path, the call immediately returns another hold on the same contender. Without this option, Lock
// fails there with ErrDeadlock, and TryLock with a BusyError. Note that goroutines that lock with the same hold's
// context then hold the lock together.
//
// The mutex is free once every hold on the contender has been released. These holds share one token, and if one of them
// is lost, all of them are. Their other options are those of the Mutex that was locked first.
//
// Source: Curator's InterProcessMutex, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the mutex take kazoo's contenders into account, so that Python programs can share it. The option is
// off by default. For exclusion to work in both directions, kazoo must also see our contenders: pass
// extra_lock_patterns=["lock-"] to each Lock there, or else both sides can hold the lock at the same time. Use the
// option in every program on the path, because a program without it fails with ErrForeignContender when it meets a
// kazoo contender.
//
// A holder that uses kazoo can't be revoked. A missing path is created as a plain node instead of a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithHandOver determines when a waiter prepares for its grant; the default is [zkrecipes.HandOverLazy]. The other
// values help when more than two sessions contend for short critical sections, especially if the servers are far away.
// They make no difference if only two contend at a time, if all contenders belong to one session, or in combination
// with [WithKazoo]. Programs with different values can share the path.
func WithHandOver(when zkrecipes.HandOver) Option { return recipe.HandOver[*config](when) }

// New returns the mutex on path. It doesn't send any requests; the first Lock creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; or an invalid option.
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
// ends while Lock is waiting, the caller rejoins at the back of the queue in the next session. To limit how long Lock
// waits, pass a context with a deadline. The deadline doesn't limit the hold, whose context inherits only ctx's values.
// The package documentation describes what the holder's reads see.
//
// Errors: [*zkrecipes.WaitError] if ctx is done first; ErrDeadlock, immediately, if ctx is derived from a live hold on
// the same path, unless [WithReentrance] applies; ErrForeignContender; ErrSequenceExhausted; ErrClosed; or the server's
// error.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessMutex.
func (m *Mutex) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return m.queue.Acquire(ctx, entry)
}

// TryLock is like [Mutex.Lock], but fails instead of waiting for other contenders. A call that fails leaves no node
// behind in ZooKeeper, with the exceptions that the package documentation describes.
//
// Errors: [*zkrecipes.BusyError] if there is a holder or a waiter, even if ctx is derived from that hold, unless
// [WithReentrance] applies; otherwise the same as for Lock.
func (m *Mutex) TryLock(ctx context.Context) (*zkrecipes.Hold, error) { return m.queue.Try(ctx, entry) }

// Do locks the mutex, calls fn, and unlocks the mutex when fn returns or panics. The context passed to fn is derived
// from the hold, and is canceled when the hold ends or ctx is done, whichever comes first. If Do returns nil, the mutex
// was held throughout the call to fn.
//
// After fn has returned, Do waits until the release is confirmed, but only until ctx is done, and for a second at most.
// The release then continues in the background.
//
// Errors: those from Lock, in which case fn isn't called; or an error from fn, joined with a [*zkrecipes.LostError] if
// the hold was lost before fn returned. If fn's error only reports that its context was canceled, the joined error has
// its text but doesn't match it, so that a cancellation never hides a loss.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, m.Lock, fn)
}

// Run is like [Mutex.Do], but starts over whenever the hold is lost: it waits for fn to return, locks again, and calls
// fn with the new hold, whose token is larger. This means that fn must be able to start over as well. If Run returns
// nil, the mutex was held throughout the final call to fn.
//
// If a hold lasted less than a second, Run backs off before it locks again. The pause is 50 ms the first time and
// doubles each time up to 5 seconds, plus or minus a random amount of up to half. A longer hold resets the backoff.
//
// An error from fn ends Run. The exception is an error that, after a loss, only reports the loss or that fn's context
// was done.
//
// Errors: an error from fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; context.Cause(ctx); or
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

// Queue returns the holder, followed by the waiters in the order in which they will be granted the lock. The list is at
// least as recent as the call. If the mutex is free, the list is empty and the error is nil.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; or the server's error.
func (m *Mutex) Queue(ctx context.Context) ([]zkrecipes.Participant, error) { return m.queue.List(ctx) }

// Revoke asks the holder to release the mutex, by closing its hold's [zkrecipes.Hold.Revoked] channel. Whether and when
// to comply is up to the holder. If nobody holds the mutex, Revoke is a no-op. Since the request replaces the holder's
// data, the holder's name no longer appears in [Mutex.Queue].
//
// Errors: a holder that uses kazoo, because it can't be asked; ErrUnknownOutcome if the reply was lost, after which you
// can call Revoke again; otherwise the same as for [Mutex.Queue].
//
// Source: Curator's Revoker; the two are compatible.
func (m *Mutex) Revoke(ctx context.Context) error { return m.queue.Revoke(ctx) }
