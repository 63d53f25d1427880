package znode

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// reading is what has been asked of the server.
type reading struct {
	done chan struct{} // closed once the rest may be looked at
	err  error
}

// past is a reading that needs none.
var past = func() reading {
	r := reading{done: make(chan struct{})}
	close(r.done)
	return r
}()

// wait returns when the answer is there.
func (r *reading) wait(ctx context.Context, s *session.Session) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Done():
		return s.Err()
	}
}

// listing is one reading of a queue's children.
type listing struct {
	reading
	sent   chan struct{} // closed once whatever is asked from now on is asked after it; never if one cannot tell
	queue  []Contender   // once sorted or placed in order
	shared bool          // several have asked for it; settled before it is read
	once   sync.Once     // guards the order of one that is shared; nobody changes it after that
}

// place returns the place of the node's first contender in the queue, -1 if one of them is not there. The queue is then
// in order up to that place, with the others behind it.
func (l *listing) place(n *node) int {
	if !l.shared && len(n.others) == 0 {
		return arrangeAhead(l.queue, n.Contender)
	}
	l.sort()
	for _, c := range n.others {
		if l.index(c) < 0 {
			return -1
		}
	}
	return l.index(n.Contender)
}

// sort brings the whole queue into order.
func (l *listing) sort() {
	if !l.shared {
		slices.SortFunc(l.queue, compare)
		return
	}
	l.once.Do(func() { slices.SortFunc(l.queue, compare) })
}

// index is for a queue that is sorted.
func (l *listing) index(c Contender) int {
	i, found := slices.BinarySearchFunc(l.queue, c, compare)
	if !found {
		return -1
	}
	return i
}

// lister reads the children of one queue in one session, for all who wait in it. A reading is shared by everybody who
// asked before it began, never by anyone who asked later: what a caller gets is newer than its question. So however
// many ask at once, there are at most two readings, the one on its way and the next.
type lister struct {
	queue   *Queue
	session *session.Session

	succession *succession

	mu      sync.Mutex
	running *listing
	next    *listing
}

func newLister(q *Queue, s *session.Session) *lister {
	return &lister{queue: q, session: s, succession: &succession{queue: q, session: s}}
}

func newListing() *listing {
	return &listing{reading: reading{done: make(chan struct{})}, sent: make(chan struct{})}
}

// ask returns a listing that begins after this call.
func (l *lister) ask() *listing {
	current, mine := l.join()
	if mine {
		l.read(current)
	}
	return current
}

// join returns the listing for one who asks now, and whether nobody else sees to it that it is read.
func (l *lister) join() (_ *listing, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running == nil:
		l.running = newListing()
		return l.running, true
	case l.next == nil:
		l.next = newListing()
	default:
		l.next.shared = true
	}
	return l.next, false
}

// accompany returns a listing that the caller will see to, with listed to be called; nil if one is on its way already.
func (l *lister) accompany() *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return nil
	}
	l.running = newListing()
	return l.running
}

// read asks for the listing that is running.
func (l *lister) read(current *listing) {
	if !l.session.ReadChildren(l.queue.path, sync.OnceFunc(func() { close(current.sent) }), l.listed) {
		l.listed(nil, zk.Stat{}, context.Canceled) // the client is closed; who waits sees the session's end
	}
}

// listed settles the listing that is running, and asks for the next if anybody wants it.
func (l *lister) listed(children []string, _ zk.Stat, err error) {
	queue, foreign := pick(children, l.queue.kinds)
	if len(foreign) > 0 { // not here, where nobody may wait for a logger
		l.session.Go(func(context.Context) { l.queue.reportForeign(foreign) })
	}
	l.mu.Lock()
	current, next := l.running, l.next
	l.running, l.next = next, nil
	l.mu.Unlock()
	current.queue, current.err = queue, err
	close(current.done)
	if next != nil {
		l.read(next)
	}
}

// reportForeign logs, once, children that are no contenders: somebody keeps other nodes below the lock.
func (q *Queue) reportForeign(names []string) {
	if len(names) == 0 {
		return
	}
	q.foreign.Do(func() {
		q.client.Logger().Warn("zookeeper: children that are no contenders are skipped",
			"path", q.path, "kinds", strings.Join(q.kinds, " "), "children", names[:min(len(names), 5)], "of", len(names))
	})
}
