package cache

import (
	"slices"
	"sync"
	"time"
)

// A round ends when all parts are clean that were dirty when it began, or were found because of them. What becomes dirty
// meanwhile belongs to the next. So a round ends however fast the nodes change.

// waiter waits for the end of a round.
type waiter struct {
	done  chan struct{}
	asked bool // a sync is on its way
	round int  // 0 until the sync is answered
}

// advance ends the round if it can, and begins the next.
func (e *engine) advance() {
	for range 2 {
		switch {
		case !e.connected || e.heard.IsZero():
			return
		case !e.active:
			e.round++
			e.active, e.roundOf = true, e.heard
			e.parity ^= odd
		}
		if e.dirty[(e.parity^odd)/odd] > 0 {
			return
		}
		e.active, e.finished = false, e.round
		e.asOf.advance(e.roundOf)
		if e.finished >= e.verifyBy {
			e.verified = e.verifies
		}
		if !e.standing {
			e.standing = true
			e.cache.tellReaders()
		}
		e.waiters = slices.DeleteFunc(e.waiters, func(w *waiter) bool {
			over := w.round > 0 && w.round <= e.finished
			if over {
				close(w.done)
			}
			return over
		})
	}
}

// instant is a time that only goes forward: what a caller was told once, stays true.
type instant struct {
	mu sync.Mutex
	at time.Time
}

// advance moves the time to t, unless it is later already, and returns it.
func (i *instant) advance(t time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if t.After(i.at) {
		i.at = t
	}
	return i.at
}
