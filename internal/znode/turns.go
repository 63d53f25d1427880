package znode

import "sync"

// turns lets callers share readings. A caller gets a reading that begins after its question, and shares it with the others that
// asked before it began. So however many ask at once, there are at most two readings: the one on its way and the next.
type turns[R any] struct {
	mu            sync.Mutex
	running, next *R
}

// join returns the next reading, which fresh makes for the first of its callers. It tells each caller to joined, under the lock. Begins says
// that no reading is on its way: the caller begins this one.
func (t *turns[R]) join(fresh func() *R, joined func(*R)) (r *R, begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = fresh()
	}
	r = t.next
	joined(r)
	if begins = t.running == nil; begins {
		t.running, t.next = r, nil
	}
	return r, begins
}

// end ends the reading on its way with what ended does under the lock. It returns the next one, which its caller begins; nil if
// nobody waits for one.
func (t *turns[R]) end(ended func(*R)) (next *R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended(t.running)
	t.running, t.next = t.next, nil
	return t.running
}
