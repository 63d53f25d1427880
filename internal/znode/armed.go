package znode

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// A waiter is armed if a single event can grant it. It watches its predecessor, which is its only obstacle, and its own
// node. When the server reports that the predecessor was deleted, and the watch on its own node has not fired, it is
// the waiter's turn without any further read.
//
// Why that is safe:
//
//  1. The server numbers the contenders, and numbers only grow, so all that are ahead of the waiter came before it. The
//     exception is a downgrade: a reader that takes the place of its writer. It is not an obstacle for a reader, and no
//     writer is armed behind a writer.
//  2. The list was read in this session and shows the waiter's own node, so it shows all contenders that are ahead and
//     have not left. It also shows that the rule would grant the waiter in the predecessor's place, so no other
//     contender is an obstacle.
//  3. While the waiter's own node exists, its parent is still the same one, so neither numbers nor names recur: a node
//     with the predecessor's name is the predecessor.
//  4. The predecessor has left if the server has reported its deletion, or has answered that the node does not exist. A
//     watch that fires for another reason (a change, a new connection, the removal of the watch) grants nothing.
//  5. The waiter's own node was read in this session, and has the czxid of the create. The events of a connection
//     arrive in the order of the transactions, so while its watch has not fired, it existed when the predecessor was
//     deleted. The waiter checks its own watch after the predecessor's.
//  6. A new connection fires both watches before any event or answer to a request is received on it.
//  7. One transaction may delete both nodes. If the event of the waiter's own node is second, it ends the hold when it
//     arrives.
//  8. hold.FromTurn proves the session, as for every grant. While it requests the proof, the connection may be lost
//     and the waiter's node deleted without an event. The next connection fires the watch on it, and hold.FromTurn
//     then checks whether the node exists. If it does, 2 to 4 still hold: its parent is the same one, and the
//     predecessor does not return.
//
// In a queue of one kind (see New), an eager waiter looks early if its predecessor is not a sibling and has others
// ahead of it (see Waiter.lookEarly): it watches the contender two ahead, and its own node. When that contender has
// left, it reads the predecessor, which still holds, and the list, so it is armed before its predecessor leaves. What
// the early look adds:
//
//  9. The contender two ahead has left if the server says so and the waiter's own watch has not fired (4 and 5). If
//     that contender cannot be read, the waiter waits for the predecessor. If it only changed, or a new connection came
//     up, the waiter lists. It is not the waiter's turn while that contender exists, so nothing is missed if the
//     predecessor leaves first. The grant itself follows from the predecessor, so 8 covers it.
//  10. The list may be omitted if the waiter was third in its last one: then only the predecessor is left. Further
//      back, the contender two ahead may have given up while others ahead of it remain, which only the list shows.
//  11. The list and the read of the predecessor are in flight together, and only the list decides whether that is the
//      contender to wait for. The order in which the server answers them does not matter: a deleted name does not recur
//      (3). For the same reason, a waiter behind a sibling reads that one concurrently with its first list
//      (Waiter.lookBesideList).
//  12. The waiter's own node is read again along with the predecessor, as for every armed waiter, so both watches are
//      set by requests sent together, and it does no harm if a server has lost the first watch on it. Until then, the
//      first watch shows whether a new connection has come up (6).
//
// In any doubt the waiter reads the list again. Only then does it see a foreign contender, so one that has joined since
// the last list is not refused.
//
// Queues shared with kazoo are not armed, because kazoo counts contenders that this library did not number. Nor is the
// door of a semaphore, which reads the leases in any case, behind a list that costs no extra round trip.
//
// Source: the ordering guarantees of ZooKeeper's watches. No server is known to report a deletion that did not happen.

// obstacle is what a waiter waits for.
type obstacle struct {
	path string // path of the predecessor; for lookEarly, of the contender two ahead
	// Whether the deletion of the predecessor grants the waiter, because it is the only obstacle, even if others are
	// ahead: a reader does not wait for readers. For lookEarly, whether the deletion of the contender at path suffices to
	// look.
	deletionSuffices bool
	// Closed when the predecessor passes its place on, if it is a sibling; else nil.
	passedOn <-chan struct{}

	// Path of the contender two ahead, if the waiter looks early when that leaves; else empty.
	twoAhead string
	third    bool // no others are ahead of these two
}

// earlyRead is a read of the predecessor that was in flight together with the list: see 11.
type earlyRead struct {
	path     string
	passedOn <-chan struct{} // as in obstacle
	watch    *session.Watch
	err      error
}

// obstacleOf returns what the contender at me waits for, given a listing that is in order up to it. A rule only
// considers what is ahead, so applied at the predecessor's index it shows whether the waiter would be granted there,
// that is, whether the predecessor is its only obstacle.
func (w *Waiter) obstacleOf(queue []Contender, me, predecessor int, rule Rule) obstacle {
	q := w.queue
	next, only := rule(queue, predecessor)
	afterWriter := queue[me].Kind == Write && queue[predecessor].Writes() // it may leave a reader at its place
	o := obstacle{path: q.Child(queue[predecessor].Name), deletionSuffices: q.canArm && only && !afterWriter}
	// With several kinds, a sibling that was granted may have had others ahead, so its release proves nothing unless it is
	// the only obstacle. Without arming there are no places, and request returns nil.
	if o.deletionSuffices || len(q.kinds) == 1 {
		o.passedOn = w.shared.places.request(queue[predecessor].Name)
		if seen := w.early; seen != nil && seen.path == o.path { // it may have left since then
			o.passedOn = seen.passedOn
		}
	}
	if w.shared.sections.looksEarly(q.handOver) && !only && o.passedOn == nil {
		o.twoAhead = q.Child(queue[next].Name)
		_, o.third = rule(queue, next)
	}
	return o
}

// await waits until it is the waiter's turn, or there is a reason to read the list again. It watches with getData,
// which leaves no watch on the server if the node is already gone.
func (w *Waiter) await(ctx context.Context, o obstacle) (turn bool, err error) {
	if o.twoAhead != "" {
		return w.lookEarly(ctx, o)
	}
	for {
		watch, err := w.look(ctx, o, nil)
		if errors.Is(err, zk.ErrNoNode) {
			return (o.deletionSuffices || isPassedOn(o.passedOn)) && w.nodeExists(), nil
		}
		if err != nil {
			return false, err
		}
		passedOn := o.passedOn
		// If the waiter's own node cannot be read, it cannot take the place, and no list would change that.
		if w.ownWatch == nil {
			passedOn = nil
		}
		// If an event may have been lost, look reads the same nodes again, but doesn't list: a thousand waiters must not
		// each list a thousand.
		if recheck, err := w.pause(ctx, watch.Fired(), w.ownWatch.Fired(), passedOn); err != nil {
			return false, err
		} else if recheck {
			continue
		}
		switch {
		case isPassedOn(passedOn):
		case o.deletionSuffices && watch.SaysDeleted():
			// What the holder reads must be no older than the event. This comes before the check of the waiter's own watch: a
			// connection that came up earlier has fired that watch, and one that comes up later begins with a barrier, unless a
			// server has answered by then.
			w.session.LeanOnEvent()
		default:
			return false, nil
		}
		return w.nodeExists(), nil
	}
}

// lookEarly is await for a waiter with obstacles other than its predecessor. When the contender two ahead has left, it
// reads the predecessor, and the list unless the waiter was third.
func (w *Waiter) lookEarly(ctx context.Context, o obstacle) (turn bool, err error) {
	switch gone, err := w.await(ctx, obstacle{path: o.twoAhead, deletionSuffices: true}); {
	case errors.Is(err, ephemeral.ErrGone), err != nil && ctx.Err() != nil:
		return false, err
	case err != nil: // if the session has ended, await fails immediately
		return w.await(ctx, obstacle{path: o.path})
	case !gone:
		return false, nil
	case o.third:
		w.seen = sight{2, w.seen.of - 1, o.path, w.seen.among - 1}
		return w.await(ctx, obstacle{path: o.path, deletionSuffices: true})
	}
	watch, err := w.look(ctx, obstacle{path: o.path, deletionSuffices: true}, func() { w.listing = w.list() })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false, err
	}
	w.early = &earlyRead{o.path, nil, watch, err}
	return false, nil
}

// lookBesideList reads the predecessor while the list is in flight, if it is a sibling. A list that has to wait for
// another one takes up to two round trips, and reading the predecessor after it would take a third. A list that was
// sent right behind the create (atOnce) needs no such help: its answer arrives with that of the create.
func (w *Waiter) lookBesideList() {
	l := w.listing
	if l == nil || l.atOnce || !w.queue.canArm || len(w.queue.kinds) > 1 {
		return
	}
	name := w.shared.places.justAhead(w.ctx, w.first(), l.done)
	select {
	case <-l.done: // the list says more
		return
	default:
	}
	if name != "" {
		o := obstacle{path: w.queue.Child(name), passedOn: w.shared.places.request(name)}
		watch, err := w.look(w.ctx, o, nil)
		w.early = &earlyRead{o.path, o.passedOn, watch, err}
	}
}

// nodeExists reports whether the waiter's node existed at the latest event, as far as the client knows.
func (w *Waiter) nodeExists() bool { return w.ownWatch != nil && !w.ownWatch.HasFired() }

// look reads and watches the predecessor. If the end of the predecessor can grant the waiter, and the waiter's own node
// is not watched, look reads and watches that too. If its own node cannot be read, the waiter is not armed. What beside
// requests, if it is not nil, goes out in the same write as those two reads.
func (w *Waiter) look(ctx context.Context, o obstacle, beside func()) (watch *session.Watch, err error) {
	early := w.early
	w.early = nil
	if early != nil && early.path == o.path && w.nodeExists() {
		return early.watch, early.err
	}
	w.ownWatch = nil
	if !o.deletionSuffices && o.passedOn == nil {
		return w.watchAhead(ctx, o.path)
	}
	own, read := w.session.GetBothW(ctx, w.Path(), o.path, beside)
	switch {
	case errors.Is(own.Err, zk.ErrNoNode), own.Err == nil && own.Stat.Czxid != w.node.Czxid:
		return nil, ephemeral.ErrGone
	case own.Err == nil:
		w.ownWatch = own.Watch
	}
	return w.sawAhead(o.path, read)
}

// watchAhead reads and watches the predecessor.
func (w *Waiter) watchAhead(ctx context.Context, path string) (*session.Watch, error) {
	var read session.Got
	read.Data, read.Stat, read.Watch, read.Err = w.session.GetW(ctx, path)
	return w.sawAhead(path, read)
}

// sawAhead records a read of the predecessor.
func (w *Waiter) sawAhead(path string, read session.Got) (*session.Watch, error) {
	if read.Err == nil && path == w.seen.head {
		w.setHolder(path, read.Data, read.Stat)
	}
	return read.Watch, read.Err
}
