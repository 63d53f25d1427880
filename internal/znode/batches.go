package znode

import "sync"

// batches lets callers share listings. A caller gets a listing that begins after its request, and shares it with the
// others that requested one before it began. However many callers request one at the same time, there are at most two
// listings: the one in flight and the next.
type batches struct {
	mu            sync.Mutex
	running, next *listing
}

// join returns the next listing, which fresh creates for the first of its callers. If begins is true, none is in
// flight, and the caller must begin this one.
func (b *batches) join(fresh func() *listing) (l *listing, begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = fresh()
	}
	l = b.next
	l.callers++
	if begins = b.running == nil; begins {
		b.running, b.next = l, nil
	}
	return l, begins
}

// end ends the listing in flight. It returns the next one, which the caller must begin, or nil if nobody waits for one.
func (b *batches) end() (next *listing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.running.done)
	b.running, b.next = b.next, nil
	return b.running
}
