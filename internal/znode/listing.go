package znode

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// listing is one read of a queue's children. Its result is valid once done is closed.
type listing struct {
	done   chan struct{}
	sends  atomic.Int32 // how many times it has been sent
	atOnce bool         // it was sent when its only caller requested it, without waiting for another listing
	queue  []Contender  // in order once sorted
	others []string     // children that are not contenders
	err    error
	// The listing of another queue, sent right behind this one; see Queue.alsoLists. It is done only if this one was sent.
	also *listing

	// How many callers requested it; final before it is read.
	callers int
	// Guards the sorting of a listing with several callers; the order does not change after that.
	once sync.Once
}

func newListing() *listing {
	return &listing{done: make(chan struct{})}
}

// listingOf returns a listing of children that have already been read.
func (q *Queue) listingOf(names []string) *listing {
	l := newListing()
	l.queue, l.others = pick(names, q.kinds)
	close(l.done)
	return l
}

// sentOnce reports whether this listing, which is done, was sent only once. If it was repeated, a request sent after it
// may have been read before it.
func (l *listing) sentOnce() bool { return l.sends.Load() == 1 }

// wait returns when the answer has arrived.
func (l *listing) wait(ctx context.Context, s *session.Session) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return s.ExplainUnanswered(context.Cause(ctx))
	case <-s.Done():
		return s.Err()
	}
}

// locate returns the index of the first of a node's contenders in the queue, or -1 if one of them is missing.
// Afterwards the queue is in order up to that index, with the others behind it.
func (l *listing) locate(contenders []Contender) int {
	if l.callers <= 1 && len(contenders) == 1 {
		return arrangeAhead(l.queue, contenders[0])
	}
	l.sort()
	for _, c := range contenders {
		if l.index(c) < 0 {
			return -1
		}
	}
	return l.index(contenders[0])
}

// sort sorts the whole queue.
func (l *listing) sort() {
	if l.callers <= 1 {
		slices.SortFunc(l.queue, layout.Compare)
		return
	}
	l.once.Do(func() { slices.SortFunc(l.queue, layout.Compare) })
}

// index returns the index of c in a sorted queue, or -1.
func (l *listing) index(c Contender) int {
	i, found := slices.BinarySearchFunc(l.queue, c, layout.Compare)
	if !found {
		return -1
	}
	return i
}

// sharedQueue is what the callers of a Queue share in one session.
type sharedQueue struct {
	queue    *Queue
	session  *session.Session
	shortcut *shortcut
	places   places
	listings batches
	sections sections
}

func newShared(q *Queue, s *session.Session) *sharedQueue {
	return &sharedQueue{queue: q, session: s, shortcut: newShortcut(q, s)}
}

// list returns a listing that begins after this call.
func (sq *sharedQueue) list() *listing {
	l, begins := sq.listings.join(sq.newListing)
	if begins {
		l.atOnce = true // no other caller has it
		sq.read(l)
	}
	return l
}

func (sq *sharedQueue) newListing() *listing {
	l := newListing()
	if sq.queue.alsoLists != nil {
		l.also = newListing()
		l.also.callers = 2 // l may have several, who find this one sorted
	}
	return l
}

// read sends a listing's request, and right behind it the request of the other one, if any. The answer completes
// the listing, and begins the next one, if any.
func (sq *sharedQueue) read(l *listing) {
	sent := func() {
		if l.sends.Add(1) == 1 && l.also != nil {
			sq.queue.alsoLists.sharedIn(sq.session).request(l.also, nil, func() {
				l.also.sort()
				close(l.also.done)
			})
		}
	}
	sq.request(l, sent, func() {
		if next := sq.listings.end(); next != nil {
			sq.read(next)
		}
	})
}

// request requests the children for l and calls listed once l contains them, or the error.
func (sq *sharedQueue) request(l *listing, sent, listed func()) {
	take := func(children []string, _ zk.Stat, err error) {
		l.queue, l.others = pick(children, sq.queue.kinds)
		l.err = err
		listed()
	}
	if !sq.session.ReadChildren(sq.queue.Path(), sent, take) {
		take(nil, zk.Stat{}, zkrecipes.ErrClosed) // waiters see the end of the session
	}
}
