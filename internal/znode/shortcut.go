package znode

import (
	"context"
	"strconv"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shortcut lets a session do without the list where less shows that its new contender is first: the contender just before it was
// ours, was first, and has gone. It works in three steps:
//
//   - When a contender of ours is first, noteFirst says so. When its deletion has succeeded, beforeDelete leaves a vacancy.
//   - The next acquisition takes the vacancy before it sends its create (take).
//   - When the create is answered, follows compares the new contender with the vacancy.
//
// Why the new contender is first, as long as the parent is the same:
//
//  1. It is for queues of one kind, where every contender gets its number from the server and numbers only grow.
//  2. Our last contender had its turn by a list, by an event, by this rule, or from a hold of ours before it. So all ahead of
//     it had left, or had been released by this session, and none came ahead of it later.
//  3. The new one has the next number, so none was created in between.
//
// Why the parent is the same, since a new parent would count from 0 again:
//
//  4. The watch on the parent was set before our last contender was deleted, and that deletion succeeded. A watch on an earlier
//     parent has fired by then. So a watch that has not fired is on the parent of our last contender.
//  5. The watch has not fired when the create is answered. The server sends the event of a deletion before the answer to a later request.
//  6. If that event were lost, the zxids would tell. Before a new parent has a contender with the number n, our last contender is
//     deleted (one transaction), the parent is made anew (at least one), and n contenders come (0 to n-1). With the create itself,
//     that is n+3 transactions after the create of our last contender, or more. So follows asks for fewer. Transactions with many
//     creates could break this, if the event is lost as well.
//
// Nothing watches the new node yet. If hold.Give has to wait for a proof, or a connection comes up after the create was sent, it asks whether
// the node exists. If it does, its parent is the one that it was created under, and it is still first.
//
// Any doubt leads to the list. Nothing here computes with cversion, which servers count in different ways.
//
// Source: PrepRequestProcessor of ZooKeeper numbers children in the order of their creation.
type shortcut struct {
	session *session.Session
	path    string // of the parent
	on      bool

	mu          sync.Mutex
	first       string // the name of our contender that was last first
	parentWatch *session.Watch
	wanted      bool // the watch on the parent has been asked for
	arming      bool // it is being set
	vacant      *vacancy
	hits        int // how many vacancies in a row were filled
}

// vacancy is left by a contender of ours that was first.
type vacancy struct {
	number      int   // of the contender
	czxid       int64 // of the contender
	parentWatch *session.Watch
}

// useShortcuts is the switch for tests.
var useShortcuts = true

func newShortcut(q *Queue, s *session.Session) *shortcut {
	return &shortcut{session: s, path: q.Path(), on: q.shortcuts && len(q.kinds) == 1}
}

// noteFirst notes that w is first.
func (s *shortcut) noteFirst(w *Waiter) {
	if !s.on {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = w.first().Name
	s.watchParent()
}

// watchParent sets the watch when it is wanted for the second time in a session: a caller that comes once has no use for
// it. A session that uses very many paths has none on some of them. Called with mu held.
func (s *shortcut) watchParent() {
	if s.parentWatch != nil && s.parentWatch.HasFired() {
		s.parentWatch = nil
	}
	if s.wanted && s.session.KeepWatch(s.path) && s.parentWatch == nil && !s.arming {
		s.arming = s.session.Go(func(ctx context.Context) {
			_, _, w, err := s.session.GetW(ctx, s.path)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.arming = false
			if err == nil {
				s.parentWatch = w
			}
		})
	}
	s.wanted = true
}

// beforeDelete is called before the node of c is deleted. What it returns is called when the server has said that this deletion succeeded.
// The watch is looked up here, before the deletion, because step 4 of the argument needs it to be older.
func (s *shortcut) beforeDelete(c Contender, czxid int64) (deleted func()) {
	s.mu.Lock()
	watch := s.parentWatch
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		number, err := strconv.Atoi(c.Key)
		if err == nil && watch != nil && s.first == c.Name {
			s.vacant = &vacancy{number, czxid, watch}
		}
	}
}

// take returns the vacancy for a caller that is about to join the queue; nil if there is none. It is good for one.
func (s *shortcut) take() *vacancy {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vacant
	s.vacant = nil
	if v == nil || v.parentWatch.HasFired() {
		return nil
	}
	return v
}

// reliable reports whether the next vacancy will probably be filled: the last two were. Otherwise the caller asks for the
// list with its create, or it would wait another round trip for it.
func (s *shortcut) reliable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits > 1
}

// follows reports whether w, just created, has filled the vacancy, and so is first.
func (s *shortcut) follows(v *vacancy, w *Waiter) bool {
	if v == nil {
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
