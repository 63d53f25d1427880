package mutex

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes"
)

// Locker returns a [sync.Locker] for code that wants one. Its Lock panics with the error of [Mutex.Lock], which ctx, being
// the context of every Lock, makes likely: a sync.Locker has no other way to say that it does not hold. Nor can it say
// that it was lost; code that can be changed uses Lock or Do.
//
// Unlock of what is not locked panics. It waits for the server to know as long as ctx lives.
func (m *Mutex) Locker(ctx context.Context) sync.Locker {
	return &locker{mutex: m, ctx: ctx, turn: make(chan struct{}, 1)}
}

type locker struct {
	mutex *Mutex
	ctx   context.Context //nolint:containedctx // the methods of sync.Locker take none
	// turn is taken while locked: Unlock does not say whose hold it ends, so there must be only one, also when that has
	// been lost.
	turn chan struct{}
	hold *zkrecipes.Hold // guarded by turn
}

func (l *locker) Lock() {
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		panic(fmt.Errorf("lock %s: %w", l.mutex.queue.Path(), context.Cause(l.ctx)))
	}
	h, err := l.mutex.Lock(l.ctx)
	if err != nil {
		<-l.turn
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
	_ = h.Release(l.ctx) // lost, or the removal goes on: a sync.Locker cannot say either
	<-l.turn
}
