package znode

import (
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
)

// place is a contender of one session, as the others of the session see it. If its hold is released, the waiter just behind it has
// its turn at once, without waiting for the deletion.
//
// Why that is safe:
//
//  1. The hold was granted, so no other contender was in the way of it. The list of the waiter shows no other between the two. Or
//     it shows that this contender alone is in the way.
//  2. Both nodes are of this session, so no other session can have its turn while either is there. If the session ends, both
//     holds have ended.
//  3. The waiter is armed: its own node was there when the server told of something last.
//  4. The hold has ended before its release hands the place over. Requests of the next hold go out behind those of the last one and
//     behind the deletion, on the same connection. The server takes them in this order.
//  5. A hold that was lost hands nothing over. Its work may go on, and the deletion of its node is what refuses its guarded
//     writes. So does that of a hold which was released without a connection.
//  6. If the connection ends before the deletion is answered, a guarded write of the last hold may still be on its way, and its
//     guard may still be there. So Hold.Txn of the next hold waits until the deletion is answered.
//  7. If the deletion is refused, the next hold holds all the same. Contenders behind it wait for the old node, too.
//
// Until the deletion is applied, other clients see the old node at the head.
type place struct {
	node     *ephemeral.Node
	released chan struct{} // closed when the hold was released and the deletion is on its way
}

// isReleased is false for nil.
func (p *place) isReleased() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.released:
		return true
	default:
		return false
	}
}

// ended returns the channel that is closed by the release; nil for nil.
func (p *place) ended() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.released
}

// places are those of one queue in one session, by the name of the contender.
type places struct {
	mu sync.Mutex
	of map[string]*place
}

// enter notes a contender that has been made.
func (s *places) enter(name string, n *ephemeral.Node) *place {
	p := &place{n, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]*place)
	}
	s.of[name] = p
	return p
}

// leave notes that a contender is about to be deleted.
func (s *places) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, name)
}

// find returns the place of a contender of the session; nil if it is of another one, or leaves.
func (s *places) find(name string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}
