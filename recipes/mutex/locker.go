package mutex

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Locker returns a [sync.Locker] for code that requires one. Every Lock uses ctx. Because a sync.Locker can't return an
// error, its Lock panics with the error instead, for example if ctx is done first. Nor can it report that the lock was
// lost, so prefer [Mutex.Lock] or [Mutex.Do] in code you can change.
//
// Unlock panics if the mutex isn't locked. It waits for the server's answer until ctx is done.
func (m *Mutex) Locker(ctx context.Context) sync.Locker {
	if ctx == nil { // no error can report it
		panic(fmt.Errorf("locker of %s: %w", m.queue.Path(), session.ErrNoContext))
	}
	return &locker{mutex: m, ctx: ctx, locked: make(chan struct{}, 1)}
}

type locker struct {
	mutex *Mutex
	ctx   context.Context //nolint:containedctx // the methods of sync.Locker take none
	// locked is full while the mutex is locked. Unlock does not say which hold it ends, so there must be only one, even
	// after a loss.
	locked chan struct{}
	hold   *zkrecipes.Hold // guarded by locked
}

func (l *locker) Lock() {
	select {
	case l.locked <- struct{}{}:
	case <-l.ctx.Done():
		panic(fmt.Errorf("lock %s: %w", l.mutex.queue.Path(), context.Cause(l.ctx)))
	}
	h, err := l.mutex.Lock(l.ctx)
	if err != nil {
		<-l.locked
		panic(fmt.Errorf("lock: %w", err))
	}
	l.hold = h
}

func (l *locker) Unlock() {
	h := l.hold
	if h == nil {
		panic(fmt.Sprintf("unlock of unlocked mutex %s", l.mutex.queue.Path()))
	}
	l.hold = nil
	_ = h.Release(l.ctx) // lost, or the removal continues: a sync.Locker can report neither
	<-l.locked
}
