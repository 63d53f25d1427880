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

// Mutex is a lock that at most one caller on the same path holds. It has no state: any number of goroutines may share one,
// and exclude each other as processes do.
type Mutex struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the contenders, by which others see who holds and who waits; default the client's identity. Text is the Name of a
// [zkrecipes.Participant], too. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds when the connection is lost. By default they run on to their deadline: a holder that is
// connected again in time keeps its hold.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName sets the name by which tracers, and so metrics and traces, know the mutex; default none. It has at most
// 100 bytes, and should be one of few: each name has its own metrics. ZooKeeper does not see it.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance lets a call through this object nest: if its context descends from a live hold of the same client on the same
// path, it returns another hold on the same contender, at once. Default off: Lock is ErrDeadlock there, and TryLock a
// BusyError. Goroutines that lock with the context of one hold are then inside together.
//
// The mutex is free when all holds on the contender have been released. They have one token, and end together if they are
// lost. The other options are those of the mutex that was locked first.
//
// Source: Curator's InterProcessMutex, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the mutex count the contenders of kazoo, so that programs in Python share it; default off. kazoo must count
// those of this library too: give each Lock there extra_lock_patterns=["lock-"]. Without it kazoo does not see them,
// and both hold. Use the option in all programs on the path. A program without it fails with ErrForeignContender when it
// meets a contender of kazoo.
//
// A holder of kazoo cannot be revoked. If the path is missing, it is created as a plain node and not as a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithEagerHandOver lets a waiter prepare its turn before its predecessor leaves; default off. A waiter that is not next watches the
// contender two ahead of it. When that leaves, the waiter looks whether it is next, while its predecessor still holds. Then the
// event of the predecessor's end lets it in, without another request.
//
// It saves a round trip of each hand-over between more than two sessions, so it helps where servers are far, and sections short.
// If two contend at a time, or all are of one session, it changes nothing. It costs the servers more: a release wakes two clients instead of one, and a
// contended section takes about eight requests instead of five. Who holds, and in which order, stays the same. A program
// with the option and one without it may share the path. Beside [WithKazoo] it has no effect.
func WithEagerHandOver() Option { return recipe.EagerHandOver[*config]() }

// New returns the mutex on path. It sends nothing; the first Lock creates missing parents.
//
// Errors: a nil client, a path that is relative, malformed or the root, a bad option.
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

// Lock waits until the caller holds the mutex: a waiter is let in when all contenders before it have left. If the session
// ends meanwhile, the caller queues again in the next session, at the end of the queue. ctx bounds the waiting, not the
// hold. The hold's context has the values of ctx.
//
// While the hold lasts, reads of the same client see all that the last holder wrote in ZooKeeper before its hold ended: the
// server that answers has applied the end of that hold. If the last hold was of the same session, they see each of its
// writes that was answered.
//
// On error the caller is out of the queue. Its node is deleted in the background.
//
// Errors: [*zkrecipes.WaitError] when ctx ends; ErrDeadlock, at once, if ctx descends from a live hold on the same
// path, unless [WithReentrance] applies; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise what the server said.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessMutex.
func (m *Mutex) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return m.queue.Acquire(ctx, entry)
}

// TryLock is [Mutex.Lock] without waiting for other contenders. On error no node of the call is left in ZooKeeper, unless
// ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there is a holder or a waiter, also if that is a hold that ctx descends from; otherwise
// those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*zkrecipes.Hold, error) { return m.queue.Try(ctx, entry) }

// Do locks, runs fn, waits for it, and unlocks, also when fn panics. The context of fn ends with the hold and with ctx,
// whichever is first, and descends from the hold. When Do returns nil, the mutex was held from the first statement of fn to
// the last.
//
// Errors: the errors of Lock, and fn was not run; the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost before
// fn had returned. A loss is never hidden behind a cancellation: of an error that only says that the context of fn had ended,
// the text alone is left beside the loss.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, m.Lock, fn)
}

// Run is [Mutex.Do], again after each loss: Run waits for fn, locks again, and calls fn anew with the new hold, whose token is
// larger. So fn must be able to begin again. When Run returns nil, the mutex was held from the first statement of the last
// call of fn to its last.
//
// If a hold lasted for less than a second, Run waits before it locks again: 50 ms the first time, twice as long after each
// further one, 5 s at most, a random half more or less. A longer hold starts this anew.
//
// An error of fn ends Run, unless the hold was lost and the error only says so, or says that the context of fn had ended.
//
// Errors: the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; the cause of ctx; the errors of
// Lock but ErrAuthFailed, after which Run tries again with pauses.
func (m *Mutex) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, m.Lock, fn)
}

// Path returns the path of the mutex.
func (m *Mutex) Path() string { return m.queue.Path() }

// Queue returns the holder and the waiters, in the order in which they will be let in, as new as this call. A free mutex has
// none, and that is no error.
//
// Errors: the cause of ctx, with what is in the way; ErrClosed; otherwise what the server said.
func (m *Mutex) Queue(ctx context.Context) ([]zkrecipes.Participant, error) { return m.queue.List(ctx) }

// Revoke asks the holder to release: [zkrecipes.Hold.Revoked] of its hold is closed. The holder decides whether it
// releases, and when. It is no error if there is no holder. The request replaces the data of the holder, so [Mutex.Queue] shows
// its name no more.
//
// Errors: a holder of kazoo, which cannot be asked; otherwise those of [Mutex.Queue].
//
// Source: Curator's Revoker; the two understand each other.
func (m *Mutex) Revoke(ctx context.Context) error { return m.queue.Revoke(ctx) }
