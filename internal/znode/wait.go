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

// Waiter is one acquisition in one session, from its contender's creation to its grant.
type Waiter struct {
	queue   *Queue
	ctx     context.Context //nolint:containedctx // a waiter lives as long as one call
	session *session.Session
	node    *ephemeral.Node
	shared  *sharedQueue
	attempt *hold.Attempt
	relax   func() // ends the session's retention, which is suspended while the waiter waits
	granted bool

	contenders []Contender // what the node is in the queue: one, or several leases
	listing    *listing    // asked for with the create, until it is taken; may be nil

	seen sight          // for the error when it gives up
	own  *session.Watch // on the own node, if the end of the predecessor can grant the waiter; the hold goes on with it

	since *session.Watch // fires when a connection comes up after what has shown the own node last was asked for; see hold.Turn

	glance *glance // of a waiter that has looked early, until it is taken; may be nil

	handOver func() // gives the place to the waiter of the session just behind; nil if no waiter can be armed

	// tooMany reports whether so many leases that are out are in the way; nil for a waiter that is not at a door.
	tooMany func(ctx context.Context, s *session.Session, out int) bool

	mu     sync.Mutex
	holder zkrecipes.Participant // at the head, once it has been read
}

// sight is what a waiter keeps of a listing. It drops the listing itself while it waits: of a thousand waiters that came one by
// one, each would keep another.
type sight struct {
	position, of int
	head         string // the path of the contender that is in the way; empty if nothing was listed
	among        int    // how many contenders were listed with the head
}

// join creates contenders. Until they are granted or removed, a connection that does not answer is given up soon. That does
// not hold while the waiter waits for an event, nor, after a lost event, until the grant. With list, a listing is asked for once
// the create is on its way, so that both cost one round trip.
func (q *Queue) join(ctx context.Context, s *session.Session, want ephemeral.Spec, a *hold.Attempt, list bool) (*Waiter, error) {
	w := &Waiter{queue: q, ctx: ctx, session: s, attempt: a, shared: q.sharedIn(s)}
	sent := func() {
		w.since = s.NextConnection()
		if list {
			w.listing = w.shared.list()
		}
	}
	relax := s.Retain()
	n, err := q.parent.Create(ctx, s, want, sent)
	if err != nil {
		relax()
		return nil, err
	}
	w.node, w.relax = n, relax
	for _, path := range n.Paths {
		c := q.Parse(path)
		w.contenders = append(w.contenders, c)
		if bad := checkKey(c); bad != nil {
			err = &session.OpError{Op: "queue", Path: path, Err: bad}
		}
	}
	if err != nil {
		w.leaveUnlessGranted()
		return nil, err
	}
	shared, first := w.shared, w.first() // a waiter is larger, and a hold may last
	var handedOver chan struct{}         // nil unless a waiter looks for it before the deletion
	if q.arms {
		shared.places.add(first)
		w.handOver = func() { shared.places.handOver(shared.queue.Parse(n.Paths[0]), handedOver) } // smaller than with first
	}
	n.BeforeDelete = func() (deleted func()) {
		handedOver = shared.places.remove(first)
		return shared.shortcut.beforeDelete(first, n.Czxid)
	}
	return w, nil
}

func (w *Waiter) first() Contender { return w.contenders[0] }

// grant makes the hold.
func (w *Waiter) grant(token zkrecipes.Token) (*zkrecipes.Hold, error) {
	turn := hold.Turn{Node: w.node, Token: token, Config: w.queue.config, Watch: w.own, Since: w.since, HandOver: w.handOver}
	h, err := hold.Give(w.ctx, turn, w.attempt)
	if err == nil {
		w.granted = true
		w.relax() // the grant has a retention of its own
	}
	return h, err
}

// leaveUnlessGranted removes the contender. It waits for the removal, so that nothing is left behind, unless ctx ends first
// or the removal is not allowed; then the removal goes on.
func (w *Waiter) leaveUnlessGranted() {
	if w.granted {
		return
	}
	w.node.Remove()
	w.relax()
	_ = w.node.WaitRemoved(w.ctx) // either is no error of the acquisition
}

// awaitRemoved waits for the removal also if ctx has ended, but not for long.
func (w *Waiter) awaitRemoved() {
	if w.granted {
		return
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), session.Farewell)
	defer cancel()
	_ = w.node.WaitRemoved(waiting) // no error of the acquisition
}

// leaveInBackground removes a contender that the caller needs no more, and does not wait for that.
func (w *Waiter) leaveInBackground() {
	w.granted = true // so that the caller's deferred call leaves it alone
	w.node.Remove()
	w.relax()
}

// list asks for a listing.
func (w *Waiter) list() *listing {
	w.lookAnew()
	return w.shared.list()
}

// lookAnew is called before a listing is asked for. The listing settles what a watch on the own node has left open.
func (w *Waiter) lookAnew() {
	w.since = w.session.NextConnection()
	if w.own.HasFired() && !w.own.SaysDeleted() {
		w.own = nil
	}
}

// locate returns a listing in which the contender is, and its index there. It tries l, then the listing that was asked for with
// the create, then new ones. What is asked for afterwards, about foreign nodes or a limit, may outlast the connection. So a grant by the
// listing counts only if no connection has come up since it was asked for, or the node is asked for again: see [hold.Give]. A contender
// that was not ahead in the listing is not ahead later while the node exists. Errors: ErrGone if the contender was deleted, or stands behind a copy of itself.
func (w *Waiter) locate(l *listing) (*listing, int, error) {
	for ; ; l = nil {
		if l == nil {
			l, w.listing = w.listing, nil
		}
		if l == nil {
			l = w.list()
		}
		err := requeueIfGone(l.wait(w.ctx, w.session))
		if err == nil {
			err = w.queue.refuseForeign(w.ctx, w.session, l.others)
		}
		if err != nil {
			return nil, 0, err
		}
		// A list without the contender never says that it is first. The contender was deleted, or the list was read before
		// the create was applied.
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

// requeueIfGone returns ErrGone if the queue was deleted, and the contender with it.
func requeueIfGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return ephemeral.ErrGone
	}
	return err
}

// Path returns the path of the own node.
func (w *Waiter) Path() string { return w.node.Paths[0] }

// Session returns the session of the acquisition.
func (w *Waiter) Session() *session.Session { return w.session }

// Own reads the own node, with a watch on it. Errors: the contender was deleted, for [Queue.AcquireBy].
func (w *Waiter) Own() ([]byte, zk.Stat, *session.Watch, error) {
	data, stat, changed, err := w.session.GetW(w.ctx, w.Path())
	return data, stat, changed, requeueIfGone(err)
}

// Queue returns the contenders in order, with the own one among them. But for the first call, it reads them. Errors: as Own.
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

// nameAfter is how long a waiter waits before it reads who is at the head, for the error when it gives up. Most waits are
// over by then, and one request cheaper.
const nameAfter = 50 * time.Millisecond

// pause waits until one of at most three changes is told. Recheck says that none was for so long that an event may have been lost.
//
// Meanwhile the session is not kept proven: only a hold needs that, and thousands may wait. After an event one sync goes out
// in front of the readings, so that the proof is there when they are answered.
func (w *Waiter) pause(ctx context.Context, changes ...<-chan struct{}) (recheck bool, err error) {
	w.relax()
	defer func() {
		if !recheck && err == nil {
			w.session.Freshen()
			w.relax = w.session.Retain()
		}
	}()
	told, err := w.session.AwaitChange(ctx, nameAfter, changes...)
	if err == nil && !told {
		w.readHolder()
		told, err = w.session.AwaitChange(ctx, w.session.RecheckAfter()-nameAfter, changes...)
	}
	return !told && err == nil, err
}

// saw notes the waiter's place, and who is in the way. At a door that is the first lease, if too few are left. Then those that
// have leases are one place together, ahead of the door.
func (w *Waiter) saw(l *listing, me int) {
	w.seen = sight{me + 1, len(l.queue), w.queue.head(l), len(l.queue)}
	if w.tooMany != nil && l.behind.wait(w.ctx, w.session) == nil && w.tooMany(w.ctx, w.session, len(l.behind.queue)) {
		w.seen = sight{me + 2, len(l.queue) + 1, w.queue.behind.head(l.behind), len(l.behind.queue)}
	}
	w.attempt.At(w.seen.position - 1)
}

// readHolder reads in the background who is at the head, unless that is known or the caller cannot give up.
func (w *Waiter) readHolder() {
	path := w.seen.head
	w.mu.Lock()
	known := path == "" || w.holder.Path == path
	w.mu.Unlock()
	if known || w.ctx.Done() == nil {
		return
	}
	w.session.Go(func(ctx context.Context) {
		if data, stat, err := w.session.Get(ctx, path); err == nil {
			w.setHolder(participant(path, data, stat))
		}
	})
}

func (w *Waiter) setHolder(p zkrecipes.Participant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = p
}

// gaveUp turns the end of ctx into a WaitError.
func (w *Waiter) gaveUp(err error) error {
	if err == nil || w.ctx.Err() == nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	cause := context.Cause(w.ctx)
	if err = inTheWay(w.session, cause, err); !errors.Is(err, cause) {
		err = cause // something else went wrong as the context ended
	}
	e := &zkrecipes.WaitError{Path: w.queue.name, Position: w.seen.position, Of: w.seen.of, Err: err}
	if w.holder.Path == w.seen.head { // else it has left, and the next has not been read
		e.Holder = w.holder
	}
	return e
}

// inTheWay returns the end of a context with what was in the way. Behind a request that was not answered it names the server
// alone: a write whose outcome is unknown to its sender is no matter of the caller, who is out of the queue.
func inTheWay(s *session.Session, cause, err error) error {
	var request *session.OpError
	if errors.Is(err, cause) && errors.As(err, &request) {
		return s.ExplainUnanswered(cause)
	}
	return err
}
