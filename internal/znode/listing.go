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

// listing is one reading of a queue's children. What it has read is valid once done is closed.
type listing struct {
	done   chan struct{}
	sent   chan struct{} // closed once the request has been sent
	sends  atomic.Int32  // how many times it has been sent
	queue  []Contender   // in order once it has been sorted
	others []string      // children that are no contenders
	err    error
	behind *listing // of another queue, sent after this one; see Queue.behind

	atOnce  bool      // it was sent as its only caller asked for it, and did not wait for another
	callers int       // who have asked for it; settled before it is read
	once    sync.Once // guards the order of a listing of several callers, which does not change after that
}

func newListing() *listing {
	return &listing{done: make(chan struct{}), sent: make(chan struct{})}
}

// listingOf returns a listing of children that have been read.
func (q *Queue) listingOf(names []string) *listing {
	l := newListing()
	l.queue, l.others = pick(names, q.kinds)
	close(l.done)
	return l
}

// sentOnce reports whether this listing, which is done, was sent once. If it was repeated, what was sent behind it may have
// been read before it.
func (l *listing) sentOnce() bool { return l.sends.Load() == 1 }

// wait returns when the answer is there.
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

// locate returns the place of the first of a node's contenders in the queue, or -1 if one of them is not there. The queue is
// then in order up to that place, with the others behind it.
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

// sort brings the whole queue into order.
func (l *listing) sort() {
	if l.callers <= 1 {
		slices.SortFunc(l.queue, layout.Compare)
		return
	}
	l.once.Do(func() { slices.SortFunc(l.queue, layout.Compare) })
}

// index is for a queue that is sorted.
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
	listings turns
}

func newShared(q *Queue, s *session.Session) *sharedQueue {
	return &sharedQueue{queue: q, session: s, shortcut: newShortcut(q, s)}
}

// list returns a listing that begins after this call.
func (sq *sharedQueue) list() *listing {
	l, begins := sq.listings.join(sq.newListing)
	if begins {
		l.atOnce = true // nobody else has it
		sq.read(l)
	}
	return l
}

func (sq *sharedQueue) newListing() *listing {
	l := newListing()
	if sq.queue.behind != nil {
		l.behind = sq.queue.behind.sharedIn(sq.session).listBehind(l)
	}
	return l
}

// read sends the request of a listing. Its answer completes the listing, and begins the next if there is one.
func (sq *sharedQueue) read(l *listing) {
	sent := func() {
		if l.sends.Add(1) == 1 {
			close(l.sent)
		}
	}
	listed := func(children []string, _ zk.Stat, err error) {
		l.queue, l.others = pick(children, sq.queue.kinds)
		l.err = err
		if next := sq.listings.end(); next != nil {
			sq.read(next)
		}
	}
	if !sq.session.ReadChildren(sq.queue.Path(), sent, listed) {
		listed(nil, zk.Stat{}, zkrecipes.ErrClosed) // waiters see the session's end
	}
}

// listBehind returns a listing that is sent after that of another queue in the same session.
func (sq *sharedQueue) listBehind(other *listing) *listing {
	l := newListing()
	l.callers = 2 // as other may have: whoever finds it done finds it in order
	if !sq.session.Go(func(ctx context.Context) {
		defer close(l.done)
		select {
		case <-other.sent:
		case <-other.done: // it could not be sent
		case <-ctx.Done():
		}
		var names []string
		names, l.err = sq.session.Children(ctx, sq.queue.Path())
		l.queue, l.others = pick(names, sq.queue.kinds)
		l.sort()
	}) {
		l.err = zkrecipes.ErrClosed // waiters see the session's end
		close(l.done)
	}
	return l
}
