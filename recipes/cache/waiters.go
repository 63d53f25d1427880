package cache

import "slices"

// waiter is a call that waits for the end of a round.
type waiter struct {
	done  chan struct{}
	round int  // 0 until its sync is answered
	asked bool // its sync is in flight
	err   error
}

// over reports whether its round has ended.
func (w *waiter) over(ended int) bool { return w.round > 0 && w.round <= ended }

// waiters are all calls that wait.
type waiters []*waiter

func (ws *waiters) join(w *waiter) { *ws = append(*ws, w) }

func (ws *waiters) leave(w *waiter) {
	*ws = slices.DeleteFunc(*ws, func(other *waiter) bool { return other == w })
}

// wake wakes those whose round has ended.
func (ws *waiters) wake(ended int) {
	*ws = slices.DeleteFunc(*ws, func(w *waiter) bool {
		over := w.over(ended)
		if over {
			close(w.done)
		}
		return over
	})
}

// wakeAll wakes all with an error, because no round will end.
func (ws *waiters) wakeAll(err error) {
	for _, w := range *ws {
		w.err = err
		close(w.done)
	}
	*ws = nil
}

// ask returns those that want a sync, which is sent now. While one is in flight, all others share the next. None is
// sent during a verification: see engine.addSync.
func (ws waiters) ask() (asking waiters) {
	if slices.ContainsFunc(ws, func(w *waiter) bool { return w.asked && w.round == 0 }) {
		return nil
	}
	for _, w := range ws {
		if w.round == 0 {
			w.asked = true
			asking = append(asking, w)
		}
	}
	return asking
}

// synced records that a sync was answered: what was committed before it is in the cache when the round ends.
func (ws waiters) synced(round int) {
	for _, w := range ws {
		w.round = round
	}
}

// retry records that a sync was not answered.
func (ws waiters) retry() {
	for _, w := range ws {
		w.asked = false
	}
}
