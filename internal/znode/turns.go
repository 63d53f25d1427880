package znode

import "sync"

// turns lets callers share listings. A caller gets a listing that begins after its request, and shares it with the
// others that requested one before it began. However many callers request one at the same time, there are at most two
// listings: the one in flight and the next.
type turns struct {
	mu            sync.Mutex
	running, next *listing
}

// join returns the next listing, which fresh creates for the first of its callers. If begins is true, none is in
// flight, and the caller must begin this one.
func (t *turns) join(fresh func() *listing) (l *listing, begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = fresh()
	}
	l = t.next
	l.callers++
	if begins = t.running == nil; begins {
		t.running, t.next = l, nil
	}
	return l, begins
}

// end ends the listing in flight. It returns the next one, which the caller must begin, or nil if nobody waits for one.
func (t *turns) end() (next *listing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.running.done)
	t.running, t.next = t.next, nil
	return t.running
}
