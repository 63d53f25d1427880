package session

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

type lossCallback struct {
	onSuspend bool
	f         func(*zkrecipes.LostError)
}

func lost(reason zkrecipes.LossReason, at time.Time, err error) *zkrecipes.LostError {
	return &zkrecipes.LostError{Reason: reason, At: at, Err: err}
}

// OnLoss makes the session call f once, when it ends or its proof runs out, whichever comes first. With onSuspend, f is also
// called when the connection is lost. If that is so already, OnLoss reports false and f is not called. After stop, f is not
// called any more; it may be running then.
//
// f is called on a goroutine of the session and must not wait for anything. All callbacks of a session have returned before
// the client opens the next session.
func (s *session) OnLoss(onSuspend bool, f func(*zkrecipes.LostError)) (stop func(), ok bool) {
	callback := &lossCallback{onSuspend, f}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || !time.Now().Before(s.upkeep.ValidUntil()) || onSuspend && !s.isUp() {
		return nil, false
	}
	s.callbacks[callback] = struct{}{}
	s.hurryBarrier()
	s.wakeHeartbeatBefore(s.upkeep.ValidUntil())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callbacks, callback)
	}, true
}

// lapseIfDue collects all callbacks if the proof has run out by now. Called with mu held.
func (s *session) lapseIfDue(now time.Time) lossNotices {
	until := s.upkeep.ValidUntil()
	if len(s.callbacks) == 0 || now.Before(until) {
		return lossNotices{}
	}
	return s.collect(lost(zkrecipes.LossDeadline, until, s.owner.InTheWay()), func(*lossCallback) bool { return true })
}

// lossNotices are the callbacks to call for one loss, once no lock is held.
type lossNotices struct {
	session   *session // nil if there is no loss
	lost      *zkrecipes.LostError
	callbacks []*lossCallback
}

// collect takes the callbacks that match off the list. Each result must be delivered once. Called with mu held.
func (s *session) collect(why *zkrecipes.LostError, match func(*lossCallback) bool) lossNotices {
	s.delivering++
	d := lossNotices{session: s, lost: why}
	for callback := range s.callbacks {
		if match(callback) {
			delete(s.callbacks, callback)
			d.callbacks = append(d.callbacks, callback)
		}
	}
	return d
}

// deliver calls the callbacks. If the session has ended, the last delivery to finish closes the done channel: the session may
// end while the callbacks of an earlier loss are still running. Then the server is told.
func (d lossNotices) deliver() {
	for _, callback := range d.callbacks {
		callback.f(d.lost)
	}
	s := d.session
	if s == nil {
		return
	}
	s.mu.Lock()
	s.delivering--
	over, c, granted, last := s.over(), s.connection, s.id != 0, s.report(nil)
	s.mu.Unlock()
	if !over {
		return
	}
	s.owner.Ended(s.lost, last)
	close(s.done)
	s.stop()
	switch {
	case c == nil:
	case !granted || s.lost.Reason == zkrecipes.LossExpired:
		c.Drop()
	default:
		s.closeOn(c)
	}
}

// closeOn closes the session on the server, and then the connection, at the latest after a second.
func (s *session) closeOn(c *link.Connection) {
	if s.sendOn(s.ctx, c, []request{{wire.OpClose, "/", wire.CloseFrame(), func(reply, error) { c.Drop() }}}) {
		time.AfterFunc(time.Second, c.Drop)
	}
}

// over reports that the session has ended and that all callbacks have returned; no callback is added any more. Called with
// mu held.
func (s *session) over() bool { return s.lost != nil && s.delivering == 0 }
