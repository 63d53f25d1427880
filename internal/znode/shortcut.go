package znode

import (
	"context"
	"strconv"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shortcut lets a session skip the list where less suffices to show that its new contender is first: the contender just
// before it was ours, was first, and is gone. It works in three steps:
//
//   - When a contender of ours is first, noteFirst records it. When its deletion has succeeded, vacate leaves a
//     vacancy.
//   - The next acquisition takes the vacancy before it sends its create (take).
//   - When the create is answered, follows compares the new contender with the vacancy.
//
// Why the new contender is first, as long as the parent is the same:
//
//  1. Shortcuts are for queues of one kind, where the server numbers every contender and numbers only grow.
//  2. Our last contender had its turn by a list, by an event, by this rule, or from a hold of ours before it, so all
//     contenders ahead of it had left, or had been released by this session, and none came ahead of it later.
//  3. The new one has the next number, so none was created in between.
//
// Why the parent is the same, since a new parent would count from 0 again:
//
//  4. The watch on the parent was set before our last contender was deleted, and that deletion succeeded. A watch on an
//     earlier parent has fired by then, so a watch that has not fired is on the parent of our last contender.
//  5. The watch has not fired when the create is answered. The server sends the event of a deletion before the answer
//     to a later request.
//  6. If that event were lost, the zxids would show it. Before a new parent has a contender with the number n, our last
//     contender is deleted (one transaction), the parent is created again (at least one), and n contenders are created
//     (0 to n-1). With the create itself, that is n+3 or more transactions after the create of our last contender, so
//     follows requires fewer. Transactions with many creates could break this, if the event is lost as well.
//
// The new node is not watched yet. If hold.FromTurn has to wait for a proof, or a connection comes up after the create
// was sent, it checks whether the node exists. If it does, its parent is the one that it was created under, and it is
// still first.
//
// Any doubt leads to the list. Nothing here computes with cversion, which servers count in different ways.
//
// Source: ZooKeeper's PrepRequestProcessor numbers children in the order of their creation.
type shortcut struct {
	session *session.Session
	path    string // of the parent
	on      bool

	mu           sync.Mutex
	first        string // the name of our latest contender that was first
	parentWatch  *session.Watch
	wanted       bool // the watch on the parent has been requested
	settingWatch bool // parentWatch is being set
	vacant       vacancy
	hits         int // how many vacancies in a row were filled
}

// vacancy is left by a contender of ours that was first. The zero value means that there is none.
type vacancy struct {
	number      int   // that of the contender
	czxid       int64 // that of the contender
	parentWatch *session.Watch
}

func (v vacancy) exists() bool { return v.parentWatch != nil }

// useShortcuts lets tests switch off the shortcuts, being armed, and being passed the place.
var useShortcuts = true

func newShortcut(q *Queue, s *session.Session) *shortcut {
	return &shortcut{session: s, path: q.Path(), on: q.shortcuts && len(q.kinds) == 1}
}

// noteFirst records that w is first.
func (s *shortcut) noteFirst(w *Waiter) {
	if !s.on {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = w.first().Name
	s.watchParent()
}

// watchParent sets the watch once it is wanted for the second time in a session: a caller that acquires only once has
// no use for it. In a session that uses very many paths, some have no watch. The caller holds mu.
func (s *shortcut) watchParent() {
	if s.parentWatch != nil && s.parentWatch.HasFired() {
		s.parentWatch = nil
	}
	if s.wanted && s.session.MayKeepWatch(s.path) && s.parentWatch == nil && !s.settingWatch {
		s.settingWatch = s.session.Go(func(ctx context.Context) {
			_, _, w, err := s.session.GetW(ctx, s.path)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.settingWatch = false
			if err == nil {
				s.parentWatch = w
			}
		})
	}
	s.wanted = true
}

// watch returns the watch on the parent, or nil. It is looked up before a deletion, because step 4 of the argument
// requires it to be older.
func (s *shortcut) watch() *session.Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parentWatch
}

// vacate is called once the server has confirmed that the node of c was deleted. The watch on the parent dates from
// before that.
func (s *shortcut) vacate(c Contender, czxid int64, watch *session.Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, err := strconv.Atoi(c.Key)
	if err == nil && watch != nil && s.first == c.Name {
		s.vacant = vacancy{number, czxid, watch}
	}
}

// take returns the vacancy, if there is one, to a caller that is about to join the queue. A vacancy can be taken once.
func (s *shortcut) take() vacancy {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vacant
	s.vacant = vacancy{}
	if v.exists() && v.parentWatch.HasFired() {
		return vacancy{}
	}
	return v
}

// reliable reports whether the next vacancy will probably be filled, because the last two were. If not, the caller
// requests the list along with its create, since it would otherwise wait another round trip for it.
func (s *shortcut) reliable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits > 1
}

// follows reports whether w, just created, has filled the vacancy, and therefore is first.
func (s *shortcut) follows(v vacancy, w *Waiter) bool {
	if !v.exists() {
		return false
	}
	number, err := strconv.Atoi(w.first().Key) // n of step 6
	ok := err == nil && number == v.number+1 && !v.parentWatch.HasFired() && w.node.Czxid-v.czxid < int64(number)+3
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.hits++
	} else {
		s.hits = 0
	}
	return ok
}
