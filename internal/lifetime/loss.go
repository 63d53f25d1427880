package lifetime

import (
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

type lossCallback struct {
	onSuspend bool
	f         func(*zkrecipes.LostError) (afterwards func())
}

func lost(reason zkrecipes.LossReason, at time.Time, err error) *zkrecipes.LostError {
	return &zkrecipes.LostError{Reason: reason, At: at, Err: err}
}

// OnLoss makes the session call f once, when it ends or its proof runs out, whichever comes first. With onSuspend, f is also
// called when the connection is lost. If that is so already, OnLoss reports false and f is not called. After stop, f is not
// called any more; it may be running then.
//
// f does what must be done by the deadline and no more, because many others may wait for their turn. What it returns, unless
// that is nil, is called when all callbacks of this loss have returned.
//
// Both are called on a goroutine of the session and must not wait for anything. Both have returned for all callbacks of a session
// before the client opens the next session.
func (l *Lifetime) OnLoss(onSuspend bool, f func(*zkrecipes.LostError) (afterwards func())) (stop func(), ok bool) {
	callback := &lossCallback{onSuspend, f}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !time.Now().Before(l.upkeep.ValidUntil()) || onSuspend && !l.isUp() {
		return nil, false
	}
	l.callbacks[callback] = struct{}{}
	l.hurryBarrier()
	l.wakeHeartbeatBefore(l.upkeep.ValidUntil())
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.callbacks, callback)
	}, true
}

// collectIfDue collects all callbacks if the proof has run out by now. Called with mu held.
func (l *Lifetime) collectIfDue(now time.Time) lossNotices {
	until := l.upkeep.ValidUntil()
	if len(l.callbacks) == 0 || now.Before(until) {
		return lossNotices{}
	}
	return l.collect(lost(zkrecipes.LossDeadline, until, l.owner.InTheWay()), func(*lossCallback) bool { return true })
}

// lossNotices are the callbacks to call for one loss, once no lock is held.
type lossNotices struct {
	lifetime  *Lifetime // nil if there is no loss
	lost      *zkrecipes.LostError
	callbacks []*lossCallback
}

// collect takes the callbacks that match off the list. Each result must be delivered once. Called with mu held.
func (l *Lifetime) collect(why *zkrecipes.LostError, match func(*lossCallback) bool) lossNotices {
	l.delivering++
	d := lossNotices{lifetime: l, lost: why}
	for callback := range l.callbacks {
		if match(callback) {
			delete(l.callbacks, callback)
			d.callbacks = append(d.callbacks, callback)
		}
	}
	return d
}

// deliver calls the callbacks, in no order, and then what they have returned, so the holds of all grants have ended
// before the first is logged. Then each grant in turn is logged, and its removal begins, which waits for no answer.
//
// A deadline by itself ends no session. If the session has ended, the last delivery to finish lets the next one open
// (Ended), and closes the done channel: the session may end while the callbacks of an earlier loss are still running.
// Then the server is notified.
func (d lossNotices) deliver() {
	afterwards := make([]func(), 0, len(d.callbacks))
	for _, callback := range d.callbacks {
		if f := callback.f(d.lost); f != nil {
			afterwards = append(afterwards, f)
		}
	}
	for _, f := range afterwards {
		f()
	}
	l := d.lifetime
	if l == nil {
		return
	}
	l.mu.Lock()
	l.delivering--
	over, c, granted, last := l.over(), l.connection, l.id != 0, l.report(nil)
	l.mu.Unlock()
	if !over {
		return
	}
	l.owner.Ended(l.lost, last)
	close(l.done)
	l.stop()
	switch {
	case c == nil:
	case !granted || l.lost.Reason == zkrecipes.LossExpired:
		c.Drop()
	default:
		l.closeOn(c)
	}
}

// closeOn closes the session on the server, and then the connection, at the latest after a second. What the listener asks for before that
// has half of it: waiters count on the close.
func (l *Lifetime) closeOn(c *link.Connection) {
	ask := func(requests ...Request) bool { return c.AskLast(l.appendTraced(l.ctx, nil, requests)) }
	end := sync.OnceFunc(func() {
		ask(Request{Op: wire.OpClose, Path: "/", Frame: wire.CloseFrame(), Done: func(link.Reply, error) { c.Drop() }})
	})
	time.AfterFunc(time.Second/2, end)
	time.AfterFunc(time.Second, c.Drop)
	l.listener.Closing(ask, end)
}

// over reports that the session has ended and that all callbacks have returned; no callback is added any more. Called with
// mu held.
func (l *Lifetime) over() bool { return l.lost != nil && l.delivering == 0 }
