package znode

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Waiter is one acquisition in one session, from the creation of its contender to the grant. In a lock it gets its turn
// by a list (locate), the event of a deletion (armed.go), the release of a sibling (place.go), or the number of its
// contender (shortcut.go).
type Waiter struct {
	queue     *Queue
	ctx       context.Context //nolint:containedctx // a waiter lives as long as one call
	session   *session.Session
	node      *ephemeral.Node
	shared    *sharedQueue
	place     *place
	attempt   *hold.Attempt
	retains   bool // whether it retains the session, which it does not while it waits
	handedOff bool // the contender was granted, or is being removed in the background

	contenders []Contender // those of the node: one, or several leases
	listing    *listing    // requested with the create, until it is used; may be nil

	creation time.Duration // the round trip of the contender's creation
	wait     *wait         // nil unless several contenders were ahead
	seen     sight         // for the error if the waiter gives up
	// On the waiter's node, if the end of the predecessor can grant the waiter; the hold takes it over.
	ownWatch *session.Watch

	// Fires when a connection comes up after the latest request that showed the waiter's node; see hold.Turn.
	nextConnection *session.Watch

	early *earlyRead // until it is used; may be nil

	// tooMany reports whether the given number of existing leases leaves too few for the waiter; nil for a waiter that is
	// not at a door.
	tooMany func(ctx context.Context, s *session.Session, existing int) bool

	mu     sync.Mutex
	holder *zkrecipes.Participant // the contender at the head; nil until it has been read
}

// sight is what a waiter keeps of its last listing. The listing itself is dropped while the waiter waits, because a
// thousand waiters that came one by one would each keep a different one.
type sight struct {
	position, of int
	head         string // the path of the contender in the way; empty if nothing was listed
	among        int    // how many contenders were listed along with the head
}

// join creates contenders. The session is retained until they are granted or removed, so that a connection on which a
// sync goes unanswered is dropped early. It is not retained while the waiter waits for an event, nor while it reads
// again because an event may have been lost. With list, a listing is requested as soon as the create has been sent, so
// that both together cost one round trip.
func (q *Queue) join(
	ctx context.Context, s *session.Session, want ephemeral.Spec, a *hold.Attempt, list bool,
) (*Waiter, error) {
	w := &Waiter{queue: q, ctx: ctx, session: s, attempt: a, shared: q.sharedIn(s)}
	sent := func() {
		w.nextConnection = s.NextConnection()
		if list {
			w.listing = w.shared.list()
		}
	}
	w.beginRetention()
	begun := time.Now()
	n, err := q.parent.Create(ctx, s, want, sent)
	if err != nil {
		w.endRetention()
		return nil, err
	}
	w.node = n
	w.creation = time.Since(begun)
	w.place = &place{shared: w.shared, czxid: n.Czxid}
	w.contenders = w.place.contender[:0]
	for _, path := range n.Paths {
		c := q.Parse(path)
		w.contenders = append(w.contenders, c)
		if bad := checkSequence(c); bad != nil {
			err = &session.OpError{Op: "queue", Path: path, Err: bad}
		}
	}
	if err != nil {
		w.leaveUnlessGranted()
		return nil, err
	}
	if q.canArm {
		w.shared.places.add(w.first())
	}
	n.Observer = w.place
	return w, nil
}

func (w *Waiter) first() Contender { return w.contenders[0] }

// beginRetention keeps the session proven until endRetention is called.
func (w *Waiter) beginRetention() {
	if !w.retains {
		w.retains = true
		w.session.BeginRetention()
	}
}

func (w *Waiter) endRetention() {
	if w.retains {
		w.retains = false
		w.session.EndRetention()
	}
}

// grant makes the hold.
func (w *Waiter) grant(token zkrecipes.Token) (*zkrecipes.Hold, error) {
	turn := hold.Turn{
		Node: w.node, Token: token, Config: w.queue.config, Watch: w.ownWatch, NextConnection: w.nextConnection,
	}
	if w.queue.canArm {
		turn.Place = w.place
	}
	h, err := hold.FromTurn(w.ctx, turn, w.attempt)
	if err == nil {
		w.handedOff = true
		w.endRetention() // the grant has its own retention
	}
	return h, err
}

// leaveUnlessGranted removes the contender. A watch on its predecessor remains until it fires. leaveUnlessGranted waits
// for the removal, so that nothing is left behind, unless ctx ends first or the removal is not permitted; in those
// cases the removal continues in the background.
func (w *Waiter) leaveUnlessGranted() {
	if w.handedOff {
		return
	}
	w.node.Remove()
	w.endRetention()
	_ = w.node.WaitRemoved(w.ctx) // neither case is an error of the acquisition
}

// awaitRemoved waits for the removal even if ctx has ended, but only for a short time.
func (w *Waiter) awaitRemoved() {
	if w.handedOff {
		return
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), session.RemovalWait)
	defer cancel()
	_ = w.node.WaitRemoved(waiting) // not an error of the acquisition
}

// leaveInBackground removes a contender that the caller no longer needs, without waiting.
func (w *Waiter) leaveInBackground() {
	w.handedOff = true // the caller's deferred call does nothing
	w.node.Remove()
	w.endRetention()
}

// list requests a listing.
func (w *Waiter) list() *listing {
	w.beforeList()
	return w.shared.list()
}

// beforeList is called before a listing is requested. It drops a watch on the waiter's node that has fired without
// reporting its deletion: the listing shows whether the node exists.
func (w *Waiter) beforeList() {
	w.nextConnection = w.session.NextConnection()
	if w.ownWatch.HasFired() && !w.ownWatch.SaysDeleted() {
		w.ownWatch = nil
	}
}

// locate returns a listing that contains the contender, and its index there. It tries l, then the listing requested
// with the create, then new ones. The requests that follow a listing, about foreign nodes or a limit, may outlast the
// connection, so [hold.FromTurn] checks the node again if a connection has come up since the listing was requested.
// While the node exists, nobody gets ahead of it who was not ahead in the listing.
//
// Errors: ErrGone if the contender was deleted, or is behind a copy of itself. Queue.inSession then joins again, at the
// tail, as often as that happens.
func (w *Waiter) locate(l *listing) (*listing, int, error) {
	for ; ; l = nil {
		if l == nil {
			l, w.listing = w.listing, nil
		}
		if l == nil {
			l = w.list()
		}
		err := goneIfNoNode(l.wait(w.ctx, w.session))
		if err == nil {
			err = w.queue.refuseForeign(w.ctx, w.session, l.others)
		}
		if err != nil {
			return nil, 0, err
		}
		// A list without the contender never proves that it is first: either the contender was deleted, or the list was
		// read before the create was applied.
		if me := l.locate(w.contenders); me >= 0 {
			if slices.ContainsFunc(l.queue[:me], func(c Contender) bool { return w.node.IsCopy(c.Name) }) {
				return nil, 0, ephemeral.ErrGone // it would wait for itself
			}
			return l, me, nil
		}
		if err := w.node.RequireExists(w.ctx); err != nil {
			return nil, 0, err
		}
	}
}

// goneIfNoNode returns ErrGone if the queue was deleted, and the contender with it.
func goneIfNoNode(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return ephemeral.ErrGone
	}
	return err
}

// Path returns the path of the waiter's own node.
func (w *Waiter) Path() string { return w.node.Paths[0] }

// Session returns the session of the acquisition.
func (w *Waiter) Session() *session.Session { return w.session }

// ReadOwn reads the waiter's own node and watches it. Errors: ErrGone, upon which Queue.inSession joins again, if the
// contender was deleted.
func (w *Waiter) ReadOwn() ([]byte, zk.Stat, *session.Watch, error) {
	data, stat, changed, err := w.session.GetW(w.ctx, w.Path())
	return data, stat, changed, goneIfNoNode(err)
}

// Queue returns the contenders in order, including the waiter's own. Every call except the first reads them. Errors:
// the same as ReadOwn.
func (w *Waiter) Queue() ([]Contender, error) {
	l, me, err := w.locate(nil)
	if err != nil {
		return nil, err
	}
	w.attempt.At(me)
	l.sort()
	w.seen.position, w.seen.of = me+1, len(l.queue)
	return l.queue, nil
}

// Pause waits until the watch fires, or its event may have been lost.
func (w *Waiter) Pause(changed *session.Watch) error {
	_, err := w.pause(w.ctx, changed.Fired())
	return err
}

// nameAfter is how long a waiter waits before it reads who is at the head, which goes into the error if it gives up.
// Most waits are over by then, which saves a request.
const nameAfter = 50 * time.Millisecond

// pause waits until one of at most three changes is reported. recheck is true if none has been reported for so
// long that an event may have been lost.
//
// The session is not kept proven while waiting: only a hold needs that, and thousands may wait. After an event, a sync
// or barrier is sent ahead of the reads if the proof needs one, so the session is proven by the time they are answered.
func (w *Waiter) pause(ctx context.Context, changes ...<-chan struct{}) (recheck bool, err error) {
	w.endRetention()
	defer func() {
		if !recheck && err == nil {
			w.session.Freshen()
			w.beginRetention()
		}
	}()
	told, err := w.session.AwaitChange(ctx, nameAfter, changes...)
	if err == nil && !told {
		w.readHolder()
		told, err = w.session.AwaitChange(ctx, w.session.RecheckAfter()-nameAfter, changes...)
	}
	return !told && err == nil, err
}

// saw records the waiter's place and who is in the way. At a door that is the first lease, if too few are left. The
// lease holders then count as one place together, ahead of the door.
func (w *Waiter) saw(l *listing, me int) {
	w.seen = sight{me + 1, len(l.queue), w.queue.head(l), len(l.queue)}
	if w.tooMany != nil && l.also.wait(w.ctx, w.session) == nil && w.tooMany(w.ctx, w.session, len(l.also.queue)) {
		w.seen = sight{me + 2, len(l.queue) + 1, w.queue.alsoLists.head(l.also), len(l.also.queue)}
	}
	w.attempt.At(w.seen.position - 1)
	if w.wait == nil && me >= 2 {
		w.wait = &wait{time.Now(), me}
	}
}

// readHolder reads in the background who is at the head, unless that is known or the caller cannot give up.
func (w *Waiter) readHolder() {
	path := w.seen.head
	w.mu.Lock()
	known := path == "" || w.holder != nil && w.holder.Path == path
	w.mu.Unlock()
	if known || w.ctx.Done() == nil {
		return
	}
	w.session.Go(func(ctx context.Context) {
		if data, stat, err := w.session.Get(ctx, path); err == nil {
			w.setHolder(path, data, stat)
		}
	})
}

func (w *Waiter) setHolder(path string, data []byte, stat zk.Stat) {
	holder := participant(path, data, stat)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = &holder
}

// gaveUp turns the end of ctx into a WaitError.
func (w *Waiter) gaveUp(err error) error {
	if err == nil || w.ctx.Err() == nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err = inTheWay(w.ctx, w.session, err); !session.EndedBy(w.ctx, err) {
		err = session.CauseOf(w.ctx) // something else failed as the context ended
	}
	e := &zkrecipes.WaitError{Path: w.queue.name, Position: w.seen.position, Queue: w.seen.of, Err: err}
	// Otherwise it has left, and the next one has not been read.
	if w.holder != nil && w.holder.Path == w.seen.head {
		e.Holder = *w.holder
	}
	return e
}

// inTheWay returns the end of a context together with what was in the way. For an unanswered request it names only the
// server, because the unknown outcome of a write does not concern a caller that has left the queue.
func inTheWay(ctx context.Context, s *session.Session, err error) error {
	var request *session.OpError
	if session.EndedBy(ctx, err) && errors.As(err, &request) {
		return s.ExplainUnanswered(context.Cause(ctx))
	}
	return err
}
