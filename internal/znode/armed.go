package znode

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// A waiter is armed if one event can grant it. It watches its predecessor, which is its only obstacle, and its own
// node. When the server reports that the predecessor was deleted, and the own watch has not fired, the waiter has its
// turn without reading anything.
//
// Why that is safe:
//
//  1. Contenders get their numbers from the server, and numbers only grow, so all that are ahead of the waiter came
//     before it. The exception is a reader that takes the place of its writer. It is no obstacle for a reader, and no
//     writer is armed behind a writer.
//  2. The list was read in this session and shows the own node, so it shows all that are ahead and have not left. It
//     shows that the rule would grant the waiter at the place of the predecessor, so no contender but that one is an
//     obstacle.
//  3. While the own node exists, its parent is the same one, so no number recurs, and no name: a node of the
//     predecessor's name is the predecessor.
//  4. The predecessor has left if the server has reported its deletion, or has answered that there is no such node. A
//     watch that fires for another reason grants nothing: a change, a new connection, a watch that was removed.
//  5. The own node was read in this session, and has the czxid of the create. The events of a connection come in the
//     order of the transactions, so while its watch has not fired, it existed when the predecessor was deleted. The
//     waiter checks its own watch after that of the predecessor.
//  6. A new connection fires both watches before anything is heard on it.
//  7. One transaction may delete both nodes. If the own event is second, it ends the hold when it comes.
//  8. hold.Give proves the session, as for every grant. While it requests the proof, the connection may be lost and
//     the own node deleted without an event. The next connection fires the own watch, and hold.Give then checks
//     whether the node exists. If it does, 2 to 4 still hold: its parent is the same one, and the predecessor does
//     not return.
//
// An eager waiter looks early if others are ahead of its predecessor, which is of another session (see
// Waiter.lookEarly): it watches the contender two ahead, and its own node. When that contender has left, it reads the
// predecessor, which still holds, and the list, so it is armed before its predecessor leaves. What the early look
// adds:
//
//  9. The contender two ahead has left by the proof of 4 and 5, as a predecessor has. If it cannot be read, the
//     waiter waits for the predecessor. If it only changed, or the connection did, the waiter lists. While it exists,
//     the waiter has no turn, so nothing is missed if the predecessor leaves first. The grant itself comes by the
//     predecessor, and so 8 covers it.
//  10. The list may be omitted if the waiter was third in its last one: then only the predecessor is left. Further
//      back, those at the head may remain when one in the middle gives up. Then the list shows the obstacles.
//  11. The list and the read of the predecessor are in flight together, and only the list decides whether that is the
//      one to wait for. The order in which the server answers them does not matter: a deleted name does not recur
//      (3). A waiter behind a contender of its own session reads that beside its first list, for the same reason
//      (Waiter.lookBesideList).
//  12. The own node is read again beside the predecessor, as for every armed waiter, so both watches are of one read,
//      and a server that has lost the first own watch does no harm. That one shows whether the connection is another
//      one than before the first event.
//
// In any doubt the waiter reads the list again. It sees a foreign contender only then, so one that has come since the last list
// is not refused.
//
// Not armed are queues that kazoo shares, because it counts contenders that this library did not number. Nor is the
// door of a semaphore, which reads the leases in any case, behind a list that costs no extra round trip.
//
// Source: the ordering guarantees of ZooKeeper's watches. No server is known that reports a deletion that did not
// happen.

// obstacle is what a waiter waits for.
type obstacle struct {
	path       string          // of the predecessor
	alone      bool            // the predecessor is the only obstacle, so its deletion grants the waiter
	handedOver <-chan struct{} // closed when the predecessor, a contender of this session, hands its place over; else nil

	ahead string // of the contender two ahead, if the waiter looks early when that leaves; else empty
	third bool   // no other is ahead of these two
}

// glance is a reading of the predecessor that was on its way together with the list: see 11.
type glance struct {
	path       string
	handedOver <-chan struct{} // as in obstacle
	watch      *session.Watch
	err        error
}

// obstacleOf returns what the contender at me waits for, by a listing that is in order up to it. A rule only
// considers what is ahead, so at the place of the predecessor it shows whether another contender is an obstacle.
func (w *Waiter) obstacleOf(queue []Contender, me, predecessor int, rule Rule) obstacle {
	q := w.queue
	ahead, alone := rule(queue, predecessor)
	afterWriter := queue[me].Kind == Write && queue[predecessor].Writes() // may leave a reader at its place
	o := obstacle{path: q.Child(queue[predecessor].Name), alone: q.arms && alone && !afterWriter}
	if o.alone || q.arms && len(q.kinds) == 1 { // of several kinds, a predecessor that was granted may have others ahead
		o.handedOver = w.shared.places.find(queue[predecessor].Name)
		if seen := w.glance; seen != nil && seen.path == o.path { // since then it may have left
			o.handedOver = seen.handedOver
		}
	}
	if q.eager && !alone && o.handedOver == nil {
		o.ahead = q.Child(queue[ahead].Name)
		_, o.third = rule(queue, ahead)
	}
	return o
}

// await waits until the waiter has its turn, or there is a reason to read the list again. It watches with getData, which leaves no
// watch on the server if the node is gone already.
func (w *Waiter) await(ctx context.Context, o obstacle) (turn bool, err error) {
	if o.ahead != "" {
		return w.lookEarly(ctx, o)
	}
	for {
		ahead, err := w.look(ctx, o)
		if errors.Is(err, zk.ErrNoNode) {
			return (o.alone || isHandedOver(o.handedOver)) && w.stands(), nil
		}
		if err != nil {
			return false, err
		}
		handedOver := o.handedOver
		if w.own == nil { // as it cannot be read, the place cannot be taken, and no list would change that
			handedOver = nil
		}
		// An event may have been lost. Then look reads the same nodes again, and no list: a thousand waiters must not each list
		// a thousand.
		if recheck, err := w.pause(ctx, ahead.Fired(), w.own.Fired(), handedOver); err != nil {
			return false, err
		} else if recheck {
			continue
		}
		switch {
		case isHandedOver(handedOver):
		case o.alone && ahead.SaysDeleted():
			w.session.LeanOnEvent() // before the own watch is looked at: a connection that comes after this knows
		default:
			return false, nil
		}
		return w.stands(), nil
	}
}

// lookEarly is await for a waiter that has other obstacles than its predecessor. When the contender two ahead has
// left, it reads the predecessor, and the list unless the waiter was third.
func (w *Waiter) lookEarly(ctx context.Context, o obstacle) (turn bool, err error) {
	switch gone, err := w.await(ctx, obstacle{path: o.ahead, alone: true}); {
	case errors.Is(err, ephemeral.ErrGone), err != nil && (ctx.Err() != nil || w.session.Err() != nil):
		return false, err
	case err != nil:
		return w.await(ctx, obstacle{path: o.path})
	case !gone:
		return false, nil
	case o.third:
		w.seen = sight{2, w.seen.of - 1, o.path, w.seen.among - 1}
		return w.await(ctx, obstacle{path: o.path, alone: true})
	}
	w.listing = w.list()
	ahead, err := w.look(ctx, obstacle{path: o.path, alone: true})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false, err
	}
	w.glance = &glance{o.path, nil, ahead, err}
	return false, nil
}

// lookBesideList reads the predecessor while the list is on its way, if it is a contender of this session. A list that waits for another
// one takes up to two round trips, so callers that come together would wait for three. A list that left with the create takes one:
// its answer is just behind.
func (w *Waiter) lookBesideList() {
	l := w.listing
	if l == nil || l.atOnce || !w.queue.arms || len(w.queue.kinds) > 1 {
		return
	}
	name := w.shared.places.justAhead(w.ctx, w.first(), l.done)
	select {
	case <-l.done: // and says more
		return
	default:
	}
	if name != "" {
		o := obstacle{path: w.queue.Child(name), handedOver: w.shared.places.find(name)}
		watch, err := w.look(w.ctx, o)
		w.glance = &glance{o.path, o.handedOver, watch, err}
	}
}

// stands reports whether the own node existed at the latest event, as far as the client knows.
func (w *Waiter) stands() bool { return w.own != nil && !w.own.HasFired() }

// look reads the predecessor with a watch. If its end can grant the waiter, and the own node is not watched, that is read with it. If
// it cannot be read, the waiter is not armed.
func (w *Waiter) look(ctx context.Context, o obstacle) (ahead *session.Watch, err error) {
	early := w.glance
	w.glance = nil
	if early != nil && early.path == o.path && w.stands() {
		return early.watch, early.err
	}
	w.own = nil
	if !o.alone && o.handedOver == nil {
		return w.watchAhead(ctx, o.path)
	}
	var gone error
	session.InFlight(2, func(i int) {
		if i == 0 {
			ahead, err = w.watchAhead(ctx, o.path)
			return
		}
		_, stat, own, failed := w.session.GetW(ctx, w.Path())
		switch {
		case errors.Is(failed, zk.ErrNoNode), failed == nil && stat.Czxid != w.node.Czxid:
			gone = ephemeral.ErrGone
		case failed == nil:
			w.own = own
		}
	})
	if gone != nil {
		return nil, gone
	}
	return ahead, err
}

// watchAhead reads the predecessor with a watch.
func (w *Waiter) watchAhead(ctx context.Context, path string) (*session.Watch, error) {
	data, stat, ahead, err := w.session.GetW(ctx, path)
	if err == nil && path == w.seen.head {
		w.setHolder(participant(path, data, stat))
	}
	return ahead, err
}
