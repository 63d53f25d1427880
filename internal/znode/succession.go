package znode

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// succession is what one session knows of who is first in a queue and who will be, so that most hand-overs do without
// reading the list, which all who wait behind make longer.
type succession struct {
	queue   *Queue
	session *session.Session

	mu     sync.Mutex
	leader string // the contender that was last seen to be first

	// What the numbers tell: see survey.
	home   *session.Watch // on the parent
	asked  bool           // for home
	arming bool
	vacant *survey // since our own contender, which was first, has left
	hits   int     // how many surveys in a row were of use
}

// survey says of a queue that of those made in it before number next nobody is left but contenders. It stays true, for
// whoever leaves only makes the queue shorter than that, and grants nothing less; but for the one who needs another to be
// there, see [Queue.Beside], and brings a number of its own.
//
// So it is as good as a list for the one that gets number next: the server numbers the children of a parent one after
// the other, whoever makes them and whatever they are called, and counts on when they are deleted. The parent must still
// be the same, though, or the count may have begun again. That is what home says, a watch that was set before: the server
// tells of the deletion before it answers a create in another parent of the same name.
//
// Source: PrepRequestProcessor of ZooKeeper numbers by the parent's cversion, which it raises with every create and no
// delete; the cversion of a Stat is twice that less the children that are left.
type survey struct {
	reading
	next       int
	contenders []Contender
	home       *session.Watch // on the parent; nil if there was none, and then it is good for nothing
	zxid       int64          // of a transaction that found the parent there
}

// with returns the queue with n in it; nil if others may have come in between, or another parent.
func (v *survey) with(n *node) *listing {
	if v == nil || v.home == nil || v.home.HasFired() || n.number() != v.next {
		return nil
	}
	// In case the watch was lost, which ZooKeeper promises not to do: to make another parent and give it as many children
	// takes a transaction for each, unless somebody makes several in one, and three more with the deletion and ours. There
	// are fewer where a queue is busy compared with the ensemble; elsewhere the list costs little.
	if n.czxid-v.zxid >= int64(v.next)+3 {
		return nil
	}
	return &listing{queue: slices.Concat(v.contenders, []Contender{n.Contender}, n.others), reading: past}
}

// number is the one that the server gave to the node; -1 if it is none.
func (n *node) number() int {
	number, err := strconv.Atoi(n.Key)
	if err != nil {
		return -1
	}
	return number
}

// count begins a survey by reading the whole queue; if after is given, after that has been read by the server.
func (s *succession) count(after *listing) *survey {
	v := &survey{reading: reading{done: make(chan struct{})}}
	read := func(ctx context.Context) {
		defer close(v.done)
		if after != nil {
			select {
			case <-after.sent:
			case <-after.done: // by now it is asked after that in any case
			}
		}
		s.mu.Lock()
		home := s.watchHome()
		s.mu.Unlock()
		names, stat, err := s.session.ChildrenStat(ctx, s.queue.path)
		contenders, _ := pick(names, s.queue.kinds)
		v.err, v.home, v.contenders, v.zxid = err, home, contenders, stat.Pzxid
		v.next = int(uint32(stat.Cversion+stat.NumChildren) >> 1)
	}
	if !s.session.Go(read) {
		v.err = context.Canceled // the client is closed; who waits sees the session's end
		close(v.done)
	}
	return v
}

// watchHome returns the watch on the parent, nil if there is none. It is set when it is asked for the second time in a
// session: who passes by but once would not use it. Called with mu held.
func (s *succession) watchHome() *session.Watch {
	if s.home != nil && s.home.HasFired() {
		s.home = nil
	}
	if s.asked && s.home == nil && !s.arming {
		s.arming = s.session.Go(func(ctx context.Context) {
			_, _, w, err := s.session.GetW(ctx, s.queue.path)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.arming = false
			if err == nil {
				s.home = w
			}
		})
	}
	s.asked = true
	return s.home
}

// lead notes that n is first, and so that nobody is left of those ahead of it.
func (s *succession) lead(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = n.Name
	s.watchHome()
}

func (s *succession) leads(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader == name
}

// leaving is called before n is deleted; what it returns, when the server has said that this very request deleted it:
// then the parent was the same all the time, and if n was first, nobody up to its number is left.
func (s *succession) leaving(n *node) (left func()) {
	s.mu.Lock()
	home := s.home
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if home != nil && s.leader == n.Name {
			s.vacant = &survey{next: n.number() + 1, home: home, zxid: n.czxid, reading: past}
		}
	}
}

// take returns what is known of the queue for one who is about to join it, nil if nothing is. It is good for one.
func (s *succession) take() (v *survey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, s.vacant = s.vacant, nil
	if v == nil || v.home.HasFired() {
		return nil
	}
	return v
}

// note books whether what was known was enough.
func (s *succession) note(enough bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !enough {
		s.hits = -1
	}
	s.hits++
}

// regular reports whether what is known can be expected to be enough: it has been, more than once. One that is not needs
// the list with its create, or waits another round trip for it.
func (s *succession) regular() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits > 1
}

// undisturbed reports whether the next to join can be expected to need no list.
func (s *succession) undisturbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits > 1 && s.vacant != nil && !s.vacant.home.HasFired()
}

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
func (q *Queue) succeeds(ctx context.Context, s *session.Session, n *node, predecessor string) bool {
	if len(q.kinds) != 1 || len(n.others) > 0 || !n.succession.leads(predecessor) {
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
	if err != nil || !exists || stat.Czxid != n.czxid {
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
