package znode

import "sync"

// places are the contenders of one session in one queue, as its waiters see them. They may have come through different objects of
// the client. If the hold of one is released, the waiter just behind it has its turn at once, without waiting for the deletion.
//
// Why that is safe:
//
//  1. The hold was granted, so no other contender was in the way of it. The list of the waiter shows no other between the two. Or
//     it shows that this contender alone is in the way. The objects of both count the same kinds: see Queue.sharedIn.
//  2. Both nodes are of this session, so no other session can have its turn while either is there. If the session ends, both
//     holds have ended.
//  3. The watch on the waiter's own node is set and has not fired: the node was there when the server told of something last.
//  4. The hold has ended before its release hands the place over. Each Hold.Txn of it has been answered, so none can come later
//     (see share.beginTxn in internal/hold). What else it has sent and had an answer to, this session sees. A write that a caller
//     guards itself, with a check of the node in Client.Multi, is not known here.
//  5. A hold that was lost hands nothing over. Its work may go on, and the deletion of its node is what refuses its guarded
//     writes. So does that of a hold which was released without a connection.
//  6. If the deletion is refused, the next hold holds all the same. Contenders behind it wait for the old node, too.
//
// Until the deletion is applied, other clients see the old node at the head.
type places struct {
	mu         sync.Mutex
	handedOver map[string]chan struct{} // by the name of the contender: closed when its place is handed over; nil until it is looked for
}

// add notes a contender that has been made.
func (p *places) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handedOver == nil {
		p.handedOver = make(map[string]chan struct{})
	}
	p.handedOver[name] = nil
}

// remove notes that a contender is about to be deleted. It returns the channel to close when its place is handed over; nil if no
// waiter has looked for it.
func (p *places) remove(name string) (handedOver chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	handedOver = p.handedOver[name]
	delete(p.handedOver, name)
	return handedOver
}

// find returns the channel of a contender of the session; nil if it is of another one, or leaves.
func (p *places) find(name string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	handedOver, ours := p.handedOver[name]
	if ours && handedOver == nil {
		handedOver = make(chan struct{})
		p.handedOver[name] = handedOver
	}
	return handedOver
}

// isHandedOver reports whether a place was handed over; false for nil.
func isHandedOver(handedOver <-chan struct{}) bool {
	select {
	case <-handedOver:
		return true
	default:
		return false
	}
}
