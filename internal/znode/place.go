package znode

import (
	"context"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// places are the contenders of one Queue in one session, as its waiters see them. When the hold of one is released, the
// turn passes immediately to the waiter just behind it, without waiting for the deletion.
//
// Why that is safe:
//
//  1. The hold was granted, so no other contender was an obstacle to it. The waiter's list shows no other between the
//     two, or it shows that this contender is its only obstacle.
//  2. Both nodes belong to this session, so no other session can have its turn while either exists. If the session
//     ends, both holds have ended.
//  3. The watch on the waiter's own node is set and has not fired: the node existed at the server's latest event. If a
//     connection comes up before the hold is made, hold.FromTurn checks whether the node exists. While it does, 1 and 2
//     hold, whether or not the node of the released hold was deleted by hand.
//  4. The hold has ended before its release hands the place over. Each of its Hold.Txn calls has been answered, so none
//     can arrive later (see backing.beginTxn in internal/hold). Everything else that the hold sent, and that was
//     answered, is visible to this session. A write that a caller guards itself, with a check of the node in
//     Client.Multi, is not known here.
//  5. A hold that was lost passes nothing on. Its work may continue, and the deletion of its node is what refuses its
//     guarded writes. Nor does a hold that was released without a connection: its delete is not on its way yet, so what
//     the next holder sends could overtake it. Nor does one whose create may arrive a second time
//     (ephemeral.Node.Remove).
//  6. If the deletion is refused, the next hold is valid nevertheless. Contenders behind it wait for the old node
//     as well.
//  7. A place may be passed on before the waiter looks (lastPassedOn), or while its list is in flight (earlyRead). The
//     waiter takes it only if the list shows that contender, by its name: under a recreated parent, a contender of
//     another client may have its number.
//
// Until the deletion is applied, other clients see the old node at the head.
type places struct {
	mu sync.Mutex
	// By contender name: closed when its place is passed on; nil until a waiter requests it. Others than our own, and
	// those that are being deleted, are missing.
	passedOn map[string]chan struct{}
	// The latest contender to pass its place on before a waiter had requested its channel.
	lastPassedOn Contender

	names map[string]string // contender names by number
	// By the number that a waiter waits for: closed when there is a contender with that number.
	added map[string]chan struct{}
}

// place belongs to one contender until the contender is deleted. It is kept apart from the waiter, which is larger,
// because a hold may last.
type place struct {
	shared    *sharedQueue
	contender [1]Contender // an array, so that the waiter can use it as a list
	czxid     int64
	passedOn  chan struct{} // nil unless a waiter requested it before the deletion
	// Set before the deletion; see shortcut.
	parentWatch *session.Watch
}

// Deleting is part of [ephemeral.Observer].
func (p *place) Deleting() {
	p.passedOn = p.shared.places.remove(p.contender[0])
	p.parentWatch = p.shared.shortcut.watch()
}

// Deleted is part of [ephemeral.Observer].
func (p *place) Deleted() { p.shared.shortcut.vacate(p.contender[0], p.czxid, p.parentWatch) }

// PassOn passes the place to the sibling just behind.
func (p *place) PassOn() { p.shared.places.passOn(p.contender[0], p.passedOn) }

// alreadyPassedOn is the channel of a place that was passed on before a waiter requested it.
var alreadyPassedOn = func() chan struct{} {
	passedOn := make(chan struct{})
	close(passedOn)
	return passedOn
}()

// add records a contender that has been created.
func (p *places) add(c Contender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.passedOn == nil {
		p.passedOn, p.names, p.added = make(map[string]chan struct{}), make(map[string]string),
			make(map[string]chan struct{})
	}
	p.passedOn[c.Name], p.names[c.Key] = nil, c.Name
	if added := p.added[c.Key]; added != nil {
		close(added)
		delete(p.added, c.Key)
	}
}

// remove records that a contender is about to be deleted. It returns the channel to close when its place is passed
// on, or nil if no waiter has requested it.
func (p *places) remove(c Contender) (passedOn chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	passedOn = p.passedOn[c.Name]
	delete(p.passedOn, c.Name)
	delete(p.names, c.Key)
	return passedOn
}

// passOn passes on the place of a contender whose deletion is in flight. passedOn is what remove returned.
func (p *places) passOn(c Contender, passedOn chan struct{}) {
	if passedOn != nil {
		close(passedOn) // only once, as the deletion is sent once
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastPassedOn = c
}

// request returns the channel of a sibling, or nil for others and for one that left without passing its place on.
func (p *places) request(name string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	passedOn, ours := p.passedOn[name]
	if !ours && name == p.lastPassedOn.Name {
		return alreadyPassedOn
	}
	if ours && passedOn == nil {
		passedOn = make(chan struct{})
		// A clone, since the name would keep the list that it comes from in memory.
		p.passedOn[strings.Clone(name)] = passedOn
	}
	return passedOn
}

// justAhead returns the name of the sibling that has the number before that of c. Callers learn of their contenders in
// any order, so it waits for that contender. If ctx is done or stop is closed first, it returns "".
func (p *places) justAhead(ctx context.Context, c Contender, stop <-chan struct{}) string {
	number := numberBefore(c.Key)
	if number == "" {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names[number] == "" && p.lastPassedOn.Key != number {
		added := p.added[number]
		if added == nil {
			added = make(chan struct{})
			p.added[number] = added
		}
		p.mu.Unlock()
		select {
		case <-added:
		case <-stop:
		case <-ctx.Done():
		}
		p.mu.Lock()
		delete(p.added, number)
	}
	if name := p.names[number]; name != "" || p.lastPassedOn.Key != number {
		return name
	}
	return p.lastPassedOn.Name
}

// isPassedOn reports whether a place was passed on. It reports false for nil.
func isPassedOn(passedOn <-chan struct{}) bool {
	select {
	case <-passedOn:
		return true
	default:
		return false
	}
}
