package znode

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// waiter is one acquisition in one session, from its contender's creation to its grant.
type waiter struct {
	queue   *Queue
	ctx     context.Context //nolint:containedctx // a waiter lives as long as one call
	session *session.Session
	node    *node
	attempt *attempt
	release func() // ends the session's retention, which is suspended while the waiter waits
	granted bool

	// What the waiter has seen, for the error when it gives up.
	position, of int
	head         string // path of the contender at the head

	mu     sync.Mutex
	holder zkrecipes.Participant // at the head, once it has been read
}

// join creates contenders. Until they are granted or removed, a connection that does not answer is given up soon. That does
// not hold while the waiter waits for an event, nor, after a lost event, until the grant. With list it returns a listing as
// create does.
func (q *Queue) join(ctx context.Context, s *session.Session, want contenders, list bool) (*waiter, *listing, error) {
	release := s.Retain()
	n, l, err := q.create(ctx, s, want, list)
	if err != nil {
		release()
		return nil, nil, err
	}
	w := &waiter{queue: q, ctx: ctx, session: s, node: n, attempt: want.attempt, release: release}
	if err := n.checkKeys(); err != nil {
		w.leaveUnlessGranted()
		return nil, nil, err
	}
	return w, l, nil
}

// leaveUnlessGranted removes the contender. It waits for the removal, so that nothing is left behind, unless ctx ends first
// or the removal is not allowed; then the removal goes on.
func (w *waiter) leaveUnlessGranted() {
	if w.granted {
		return
	}
	w.node.remove()
	w.release()
	_ = w.node.waitRemoved(w.ctx) // either is no error of the acquisition
}

// leaveGranted removes a contender that the caller needs no more, and does not wait for that.
func (w *waiter) leaveGranted() {
	w.granted = true
	w.node.remove()
	w.release()
}

// place returns a listing in which the contender is, and its place. It takes l if that has the contender, and otherwise
// asks for another. Errors: errRequeue if the contender was deleted, or stands behind a copy of itself.
func (w *waiter) place(l *listing) (*listing, int, error) {
	for ; ; l = nil {
		if l == nil {
			l = w.queue.in(w.session).ask()
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
		if me := l.place(w.node); me >= 0 {
			if w.node.aheadOfItself(l.queue[:me]) {
				return nil, 0, errRequeue
			}
			return l, me, nil
		}
		if err := w.node.requireExists(w.ctx); err != nil {
			return nil, 0, err
		}
	}
}

// requeueIfGone returns errRequeue if the queue was deleted, and the contender with it.
func requeueIfGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errRequeue
	}
	return err
}

// await waits until there is a reason to read the list again: the predecessor has gone or changed, or the connection was
// away. It watches with getData, which leaves no watch on the server if the node is gone already.
func (w *waiter) await(ctx context.Context, l *listing, predecessor int) error {
	path := w.queue.path + "/" + l.queue[predecessor].Name
	for {
		data, stat, changed, err := w.session.GetW(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if predecessor == 0 {
			w.setHolder(participant(path, data, stat))
		}
		// An event may have been lost. Then the predecessor alone is read again: a thousand waiters must not each list a
		// thousand.
		if recheck, err := w.pause(ctx, changed); err != nil || !recheck {
			return err
		}
	}
}

// nameAfter is how long a waiter waits before it reads who is at the head, for the error when it gives up. Most waits are
// over by then, and one request cheaper.
const nameAfter = 50 * time.Millisecond

// pause waits until one of the watches fires. Recheck says that none has for so long that an event may have been lost.
//
// Meanwhile the session is not kept proven: only a hold needs that, and thousands may wait. After an event one sync goes out
// in front of the readings, so that the proof is there when they are answered.
func (w *waiter) pause(ctx context.Context, watches ...*session.Watch) (recheck bool, err error) {
	w.release()
	defer func() {
		if !recheck && err == nil {
			w.session.Freshen()
			w.release = w.session.Retain()
		}
	}()
	var changed [3]*session.Watch
	copy(changed[:], watches)
	timer := time.NewTimer(nameAfter)
	defer timer.Stop()
	for named := false; ; named = true {
		select {
		case <-changed[0].Fired():
			return false, nil
		case <-changed[1].Fired():
			return false, nil
		case <-changed[2].Fired():
			return false, nil
		case <-ctx.Done():
			return false, w.session.Explain(context.Cause(ctx))
		case <-w.session.Done():
			return false, w.session.Err()
		case <-timer.C:
		}
		if named {
			return true, nil
		}
		w.readHolder()
		timer.Reset(recheckAfter(w.session) - nameAfter)
	}
}

// recheckAfter returns how long to wait for an event before what is watched is read again. It is random, so that many
// waiters do not read at once.
func recheckAfter(s *session.Session) time.Duration {
	timeout := s.Timeout()
	return 2*timeout + rand.N(timeout)
}

// saw notes the waiter's place.
func (w *waiter) saw(l *listing, me int) {
	w.position, w.of = me+1, len(l.queue)
	w.head = w.queue.path + "/" + l.queue[0].Name
}

// readHolder reads in the background who is at the head, unless that is known or the caller cannot give up.
func (w *waiter) readHolder() {
	path := w.head
	w.mu.Lock()
	known := w.holder.Path == path
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

func (w *waiter) setHolder(p zkrecipes.Participant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = p
}

// gaveUp turns the end of ctx into a WaitError.
func (w *waiter) gaveUp(err error) error {
	if err == nil || w.ctx.Err() == nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	cause := context.Cause(w.ctx)
	if err = inTheWay(w.session, cause, err); !errors.Is(err, cause) {
		err = cause // something else went wrong as the context ended
	}
	return &zkrecipes.WaitError{Path: w.queue.path, Position: w.position, Of: w.of, Holder: w.holder, Err: err}
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
