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

// Mutex is a lock that at most one caller at a time holds among all callers on the same path. It is stateless: any
// number of goroutines may share one, and they exclude each other just as processes do.
type Mutex struct{ queue *znode.Queue }

// Option configures [New].
type Option func(*config) error

type config struct{ recipe.Config }

// WithData sets the data of the contenders, which shows others who holds and who waits; the default is the client's
// identity. If it is text, it is also the Name of a [zkrecipes.Participant]. It need not be unique.
func WithData(data []byte) Option { return recipe.Data[*config](data) }

// WithLossOnSuspend ends holds when the connection is lost. By default they continue until their deadline, and a holder
// that reconnects in time keeps its hold.
func WithLossOnSuspend() Option { return recipe.LossOnSuspend[*config]() }

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the mutex; by default it has no
// name. The name has at most 100 bytes and should come from a small set, because each name has its own metrics. It is
// not sent to ZooKeeper.
func WithTracerName(name string) Option { return recipe.TracerName[*config](name) }

// WithReentrance allows nested calls through this object: if the context of a call descends from a live hold of the
// same client on the same path, the call returns another hold on the same contender at once. By default Lock fails with
// ErrDeadlock there, and TryLock with a BusyError. Goroutines that lock with the context of one hold then hold the lock
// together.
//
// The mutex is free once all holds on the contender have been released. They share one token, and end together if they
// are lost. The other options are those of the mutex that was locked first.
//
// Source: Curator's InterProcessMutex, which counts by thread.
func WithReentrance() Option { return recipe.Reentrance[*config]() }

// WithKazoo makes the mutex count the contenders of kazoo, so that Python programs can share it; default off. kazoo
// must count those of this library too: pass extra_lock_patterns=["lock-"] to each Lock there. Without it kazoo does
// not see them, and both hold the lock. Use the option in all programs on the path: a program without it fails with
// ErrForeignContender when it meets a contender of kazoo.
//
// A holder that uses kazoo cannot be revoked. A missing path is created as a plain node, not as a container.
//
// Source: kazoo 2.10, kazoo/recipe/lock.py.
func WithKazoo() Option { return recipe.Kazoo[*config]() }

// WithHandOver determines when a waiter prepares for its grant; default [zkrecipes.HandOverLazy]. The other values help
// if more than two sessions contend for short sections, and most where servers are far away. They change nothing if
// only two contend at a time or all are of one session. Programs with different values may share the path. Together
// with [WithKazoo] it has no effect.
func WithHandOver(when zkrecipes.HandOver) Option { return recipe.HandOver[*config](when) }

// New returns the mutex on path. It sends nothing; the first Lock creates missing parents.
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

// Lock blocks until the caller holds the mutex, which is granted when all contenders ahead of it have left. If the
// session ends in the meantime, the caller queues again in the next session, at the end of the queue. ctx bounds the
// wait, not the hold; the hold's context carries the values of ctx. The package documentation describes what the
// holder's reads see.
//
// On error the caller is out of the queue, and its node is deleted in the background.
//
// Errors: [*zkrecipes.WaitError] if ctx ends; ErrDeadlock, at once, if ctx descends from a live hold on the same path,
// unless [WithReentrance] applies; ErrForeignContender; ErrSequenceExhausted; ErrClosed; otherwise the error of the
// server.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessMutex.
func (m *Mutex) Lock(ctx context.Context) (*zkrecipes.Hold, error) {
	return m.queue.Acquire(ctx, entry)
}

// TryLock is like [Mutex.Lock], but does not wait for other contenders. On error it leaves no node in ZooKeeper, unless
// ctx ended first.
//
// Errors: [*zkrecipes.BusyError] if there is a holder or a waiter, even if that is a hold that ctx descends from;
// otherwise those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*zkrecipes.Hold, error) { return m.queue.Try(ctx, entry) }

// Do locks the mutex, calls fn, and unlocks when fn returns or panics. The context of fn descends from the hold, and is
// canceled when the hold or ctx ends, whichever comes first. If Do returns nil, the mutex was held from the first
// statement of fn to the last.
//
// Errors: the errors of Lock, in which case fn was not called; the error of fn, joined with a [*zkrecipes.LostError] if
// the hold was lost before fn returned. A cancellation never hides a loss: an error that only reports the end of fn's
// context is reduced to its text in the joined error.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Do(ctx, m.Lock, fn)
}

// Run is like [Mutex.Do], but starts over after each loss: it waits for fn to return, locks again, and calls fn with
// the new hold, whose token is larger. fn must therefore be able to start again. If Run returns nil, the mutex was held
// from the first statement of the last call of fn to its last.
//
// If a hold lasted less than a second, Run backs off before it locks again: 50 ms the first time, doubling each time up
// to 5 s, with a random half more or less. A longer hold resets the back-off.
//
// An error of fn ends Run, unless the hold was lost and the error only reports that loss or the end of fn's context.
//
// Errors: the error of fn, joined with a [*zkrecipes.LostError] if the hold was lost as well; the cause of ctx; the
// errors of Lock except ErrAuthFailed, after which Run retries with pauses.
func (m *Mutex) Run(ctx context.Context, fn func(ctx context.Context, h *zkrecipes.Hold) error) error {
	return hold.Run(ctx, m.Lock, fn)
}

// Part returns the mutex as one of several locks for multilock.LockAll.
func (m *Mutex) Part() zkrecipes.Part {
	return hold.Part{Client: m.queue.Client(), Path: m.queue.Path(), Kind: znode.Lock, Acquire: m.Lock}.Public()
}

// Path returns the path of the mutex.
func (m *Mutex) Path() string { return m.queue.Path() }

// Queue returns the holder and the waiters in the order in which they are granted. The list is no older than this call.
// The queue of a free mutex is empty, which is not an error.
//
// Errors: the cause of ctx, with what the call was waiting for; ErrClosed; otherwise the error of the server.
func (m *Mutex) Queue(ctx context.Context) ([]zkrecipes.Participant, error) { return m.queue.List(ctx) }

// Revoke asks the holder to release by closing the [zkrecipes.Hold.Revoked] channel of its hold. The holder decides
// whether and when to release. Without a holder, Revoke is a no-op. The request replaces the data of the holder, so
// [Mutex.Queue] no longer shows its name.
//
// Errors: a holder that uses kazoo, which cannot be asked; otherwise those of [Mutex.Queue].
//
// Source: Curator's Revoker; the two are compatible.
func (m *Mutex) Revoke(ctx context.Context) error { return m.queue.Revoke(ctx) }
