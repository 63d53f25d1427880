package lifetime

import (
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

type lossCallback struct {
	onSuspend bool
	f         func(*zkrecipes.LostError) (afterwards func())
}

func lost(reason zkrecipes.LossReason, at time.Time, err error) *zkrecipes.LostError {
	return &zkrecipes.LostError{Reason: reason, At: at, Err: err}
}

// OnLoss makes the session call f once, when the session ends or its proof runs out, whichever comes first. With
// onSuspend, f is also called when the connection is lost. If any of these is already the case, OnLoss reports false
// and f is not called. After stop, f is no longer called, but a call may still be running.
//
// f must only do what has to be done by the deadline, because many others may be waiting behind it. The function that
// it returns, unless nil, is called when all callbacks of this loss have returned.
//
// Neither may block: they are called on whichever goroutine notices the loss, which may be that of a caller whose
// request fails. Before the client opens the next session, both have returned for every callback of this one.
func (l *Lifetime) OnLoss(onSuspend bool, f func(*zkrecipes.LostError) (afterwards func())) (stop func(), ok bool) {
	callback := &lossCallback{onSuspend, f}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !time.Now().Before(l.upkeep.ValidUntil()) || onSuspend && !l.isUp() {
		return nil, false
	}
	l.callbacks[callback] = struct{}{}
	l.hurryResumptionProof()
	l.wakeHeartbeatBefore(l.upkeep.ValidUntil())
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.callbacks, callback)
	}, true
}

// endIfDue ends all holds if the proof has run out by now. The heartbeat calls it, and so does every answer before it
// counts. A hold that is queried, itself or through its context, does not wait for that: it checks the clock
// (Hold.endIfDue).
func (l *Lifetime) endIfDue(now time.Time) {
	l.mu.Lock()
	until := l.upkeep.ValidUntil()
	if len(l.callbacks) == 0 || now.Before(until) {
		l.mu.Unlock()
		return
	}
	why := l.client.WhyDisconnected()
	notices := l.collect(lost(zkrecipes.LossDeadline, until, why), func(*lossCallback) bool { return true })
	l.mu.Unlock()
	notices.deliver()
}

// answered records an answer as proof. If the proof had run out by the time the whole frame was read, the holds end
// first, so that one that is used in between does not see the later deadline. Otherwise the answer extends those that
// neither the heartbeat nor a query has ended meanwhile.
func (l *Lifetime) answered(sent, read time.Time, by liveness.Witness) {
	l.endIfDue(read)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upkeep.Answered(sent, read, by)
	l.answer = Answer{read, read.Sub(sent)}
}

// end ends the session; the first reason counts. All holds have ended before done is closed, and before another session
// can exist. A second call returns without waiting for that, because it may come from the goroutine that is ending the
// holds, when a delete that it sends fails.
func (l *Lifetime) end(why *zkrecipes.LostError) {
	l.mu.Lock()
	if l.lost != nil {
		l.mu.Unlock()
		return
	}
	l.lost = why
	notices := l.collect(why, func(*lossCallback) bool { return true })
	l.mu.Unlock()
	notices.deliver()
}

// Close ends the session because the client is being closed.
func (l *Lifetime) Close() { l.end(lost(zkrecipes.LossClosed, time.Now(), zkrecipes.ErrClosed)) }

// Expired records that a server has answered that the session has expired.
func (l *Lifetime) Expired(err error) { l.end(lost(zkrecipes.LossExpired, time.Now(), err)) }

// lossNotices are the callbacks to call for one loss, once no lock is held.
type lossNotices struct {
	lifetime  *Lifetime // nil if there is no loss
	lost      *zkrecipes.LostError
	callbacks []*lossCallback
}

// collect removes the callbacks that match from the list. Each result must be delivered once. The caller holds mu.
func (l *Lifetime) collect(why *zkrecipes.LostError, match func(*lossCallback) bool) lossNotices {
	l.delivering++
	n := lossNotices{lifetime: l, lost: why}
	for callback := range l.callbacks {
		if match(callback) {
			delete(l.callbacks, callback)
			n.callbacks = append(n.callbacks, callback)
		}
	}
	return n
}

// deliver calls the callbacks, in no particular order, and then the functions they returned, so the holds of all grants
// have ended before the first loss is logged. Then, for each grant in turn, the loss is logged and the removal begins,
// without waiting for an answer.
//
// A passed deadline alone does not end a session. A session may end while the callbacks of an earlier loss are still
// running, so the last delivery to finish notifies the client (Ended) and closes done, upon which the client opens the
// next session. Unless it has expired, the session is then closed on the server, if there is a connection; for the
// other cases see core.noteOrphan.
func (n lossNotices) deliver() {
	afterwards := make([]func(), 0, len(n.callbacks))
	for _, callback := range n.callbacks {
		if f := callback.f(n.lost); f != nil {
			afterwards = append(afterwards, f)
		}
	}
	for _, f := range afterwards {
		f()
	}
	l := n.lifetime
	if l == nil {
		return
	}
	l.mu.Lock()
	l.delivering--
	over, c, granted, up, last := l.isOver(), l.connection, l.id != 0, l.isUp(), l.report(nil)
	l.mu.Unlock()
	if !over {
		return
	}
	l.client.Ended(l.lost, last)
	close(l.done)
	l.stop()
	l.listener.Over()
	switch {
	case c == nil:
	case !granted || l.lost.Reason == zkrecipes.LossExpired:
		c.Drop()
	default:
		l.closeOn(c, up)
	}
}

// closeOn closes the session on the server and then the connection, after a second at most. Requests that the listener
// sends before the close get half of that time, because waiters depend on the close. On a connection that is not up,
// nothing but the close is sent: the handshake would take the answers for its own.
func (l *Lifetime) closeOn(c *link.Connection, up bool) {
	ask := func(requests ...Request) bool { return c.AskLast(l.appendTraced(l.ctx, nil, requests)) }
	end := sync.OnceFunc(func() {
		ask(Request{Op: wire.OpClose, Path: "/", Frame: wire.CloseFrame(), Done: func(link.Reply, error) { c.Drop() }})
	})
	time.AfterFunc(time.Second/2, end)
	time.AfterFunc(time.Second, c.Drop)
	if !up {
		end()
		return
	}
	l.listener.Closing(ask, end)
}

// isOver reports whether the session has ended and all callbacks have returned; no callback is added after that. The
// caller holds mu.
func (l *Lifetime) isOver() bool { return l.lost != nil && l.delivering == 0 }
