package znode

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/zkrecipes/zkrecipes/conn"
)

// succession is what one session knows of who is first in a queue and who will be, so that most hand-overs do without
// reading the list, which all who wait behind make longer.
type succession struct {
	mu     sync.Mutex
	leader string // the contender that was last seen to be first

	// What the numbers tell: see survey.
	home   *conn.Watch // on the parent
	asked  bool        // for home
	arming bool
	vacant *survey // since our own contender, which was first, has left
	missed bool    // the last such survey was of no use, for others had come
}

// survey says of a queue that of those made in it before number next nobody is left but contenders. It stays true, for
// whoever leaves only makes the queue shorter than that; a [Rule] grants nobody because of one who has left.
//
// So it is as good as a list for the one that gets number next: the server numbers the children of a parent one after
// the other, whoever makes them and whatever they are called, and counts on when they are deleted. The parent must still
// be the same, though, or the count may have begun again. That is what home says, a watch that was set before: the server
// tells of the deletion before it answers a create in another parent of the same name.
//
// Source: PrepRequestProcessor of ZooKeeper numbers by the parent's cversion, which it raises with every create and no
// delete; the cversion of a Stat is twice that less the children that are left.
type survey struct {
	next       int
	contenders []Contender
	home       *conn.Watch // on the parent
	zxid       int64       // of a transaction that found the parent there

	done chan struct{} // closed once the rest may be read
	err  error
}

// with returns the queue with n in it; nil if others may have come in between, or another parent.
func (v *survey) with(n *node) *listing {
	if v == nil || v.home == nil || v.home.HasFired() || n.number() != v.next {
		return nil
	}
	// In case the watch was lost, which ZooKeeper promises not to do: to make another parent and give it as many children
	// takes a transaction for each, and at least three with the deletion and ours. So it is the same if there were fewer,
	// as there are where a queue is busy compared with the ensemble; elsewhere the list costs little.
	if int64(n.token)-v.zxid >= int64(v.next)+3 {
		return nil
	}
	return &listing{queue: slices.Concat(v.contenders, []Contender{n.Contender}, n.others), done: v.done}
}

// wait returns once the survey is made.
func (v *survey) wait(ctx context.Context, s *conn.Session) error {
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Done():
		return s.Err()
	}
}

// survey begins to make a survey by reading the whole queue.
func (l *lister) survey() *survey {
	v := &survey{done: make(chan struct{}), err: context.Canceled}
	read := func(ctx context.Context) {
		defer close(v.done)
		l.succession.mu.Lock()
		v.home = l.watchHome()
		l.succession.mu.Unlock()
		names, stat, err := l.session.ChildrenStat(ctx, l.queue.path)
		v.contenders, _ = pick(names, l.queue.kinds)
		v.next, v.zxid, v.err = int(uint32(stat.Cversion+stat.NumChildren)>>1), stat.Pzxid, err
	}
	if !l.session.Go(read) {
		close(v.done) // the client is closed
	}
	return v
}

// number is the one that the server gave to the node; -1 if it is none.
func (n *node) number() int {
	number, err := strconv.Atoi(n.Key)
	if err != nil {
		return -1
	}
	return number
}

// watchHome returns the watch on the parent, nil if there is none. It is set when it is asked for the second time in a
// session: who passes by but once would not use it. Called with mu held.
func (l *lister) watchHome() *conn.Watch {
	if l.home != nil && l.home.HasFired() {
		l.home = nil
	}
	if l.asked && l.home == nil && !l.arming {
		l.arming = l.session.Go(func(ctx context.Context) {
			_, _, w, err := l.session.GetW(ctx, l.queue.path)
			l.succession.mu.Lock()
			defer l.succession.mu.Unlock()
			l.arming = false
			if err == nil {
				l.home = w
			}
		})
	}
	l.asked = true
	return l.home
}

// lead notes that n is first, and so that nobody is left of those ahead of it.
func (l *lister) lead(n *node) {
	l.succession.mu.Lock()
	defer l.succession.mu.Unlock()
	l.leader = n.Name
	l.watchHome()
}

func (l *lister) leads(name string) bool {
	l.succession.mu.Lock()
	defer l.succession.mu.Unlock()
	return l.leader == name
}

// leaving is called before n is deleted; what it returns, when the server has said that this very request deleted it:
// then the parent was the same all the time, and if n was first, nobody up to its number is left.
func (n *node) leaving() (left func()) {
	l := n.lister
	l.succession.mu.Lock()
	home := l.home
	l.succession.mu.Unlock()
	return func() {
		l.succession.mu.Lock()
		defer l.succession.mu.Unlock()
		if home != nil && l.leader == n.Name {
			l.vacant = &survey{next: n.number() + 1, home: home, zxid: int64(n.token), done: returned}
		}
	}
}

// foresee returns what is known of the queue for one who is about to join it, nil if nothing is, and whether that is
// likely to be enough.
func (l *lister) foresee() (v *survey, likely bool) {
	l.succession.mu.Lock()
	defer l.succession.mu.Unlock()
	v, l.vacant = l.vacant, nil
	if v == nil || v.home.HasFired() {
		return nil, false
	}
	return v, !l.missed
}

// expects reports whether foresee is likely to know enough.
func (l *lister) expects() bool {
	l.succession.mu.Lock()
	defer l.succession.mu.Unlock()
	return l.vacant != nil && !l.missed && !l.vacant.home.HasFired()
}

// foresaw notes whether what was known was enough.
func (l *lister) foresaw(enough bool) {
	l.succession.mu.Lock()
	defer l.succession.mu.Unlock()
	l.missed = !enough
}

// returned is the done of what is there already.
var returned = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// succeeds reports whether n is first now that its predecessor has gone, where that can be told without the list: in a
// session that has seen the predecessor first, two reads do, and they do not grow with those who wait behind. Otherwise,
// and in doubt, the list decides.
//
// It is safe in a queue of one kind, where all numbers are the server's and only grow. Nobody was ahead of the
// predecessor when it was seen first, and nobody comes in there later. Nobody is between it and n: whoever got a number
// between theirs was made before n, so the list that had n would have shown it, as it showed the predecessor. That n is
// still there says that the parent is the same, and its numbers have not begun again. All of this was read in one
// session, which never sees an older state after a newer one. In a queue of readers and writers a reader may take the
// number of its writer, so there the list is read. (A negative number, past the end of the sequence, sorts ahead of all,
// but ahead of one who holds as well: no reading can rule it out.)
func (q *Queue) succeeds(ctx context.Context, s *conn.Session, n *node, predecessor string) bool {
	if len(q.kinds) != 1 || len(n.others) > 0 || !n.lister.leads(predecessor) {
		return false
	}
	gone := make(chan bool, 1)
	if !s.Go(func(ctx context.Context) { // in flight together
		exists, _, err := s.Exists(ctx, q.path+"/"+predecessor)
		gone <- err == nil && !exists
	}) {
		return false
	}
	exists, stat, err := s.Exists(ctx, n.path)
	if err != nil || !exists || stat.Czxid != int64(n.token) {
		return false
	}
	select {
	case ok := <-gone:
		return ok
	case <-ctx.Done():
	case <-s.Done():
	}
	return false
}
