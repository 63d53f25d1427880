package session

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
)

type lossCallback struct {
	onSuspend bool
	f         func(*zkrecipes.LostError)
}

func lost(reason zkrecipes.LossReason, at time.Time, err error) *zkrecipes.LostError {
	return &zkrecipes.LostError{Reason: reason, At: at, Err: err}
}

// OnLoss arranges for f to be called once, when the session ends or its proof runs out, whichever comes first, and,
// with onSuspend, also when the connection is lost. It reports false, and f is not called, if that is so already.
// Calling stop gives up the arrangement; f may be running then.
//
// f is called on a goroutine of the connection and must not wait for anything. All of a session's functions have
// returned before the client opens the next session.
func (s *session) OnLoss(onSuspend bool, f func(*zkrecipes.LostError)) (stop func(), ok bool) {
	sub := &lossCallback{onSuspend, f}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || !time.Now().Before(s.proof.validUntil()) || onSuspend && !s.isUp() {
		return nil, false
	}
	s.callbacks[sub] = struct{}{}
	s.hurryBarrier()
	s.wakeHeartbeatBefore(s.proof.validUntil())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callbacks, sub)
	}, true
}

// lapseIfDue collects everybody if the proof has run out by now. Called with mu held.
func (s *session) lapseIfDue(now time.Time) lossNotices {
	until := s.proof.validUntil()
	if len(s.callbacks) == 0 || now.Before(until) {
		return lossNotices{}
	}
	return s.collect(lost(zkrecipes.LossDeadline, until, nil), func(*lossCallback) bool { return true })
}

// departures are the functions to call for one loss, once no lock is held.
type lossNotices struct {
	session   *session // nil: there is nothing to tell
	lost      *zkrecipes.LostError
	callbacks []*lossCallback
}

// collect takes the subs that match off the list. Called with mu held.
func (s *session) collect(why *zkrecipes.LostError, match func(*lossCallback) bool) lossNotices {
	s.delivering++
	d := lossNotices{session: s, lost: why}
	for sub := range s.callbacks {
		if match(sub) {
			delete(s.callbacks, sub)
			d.callbacks = append(d.callbacks, sub)
		}
	}
	return d
}

// tell is called once for all that was collected. Whoever is the last to have told buries the session, if it is over: its
// end may come while others are still being told of an earlier loss.
func (d lossNotices) deliver() {
	for _, sub := range d.callbacks {
		sub.f(d.lost)
	}
	s := d.session
	if s == nil {
		return
	}
	s.mu.Lock()
	s.delivering--
	over, c, gone := s.over(), s.connection, s.id == 0
	s.mu.Unlock()
	if !over {
		return
	}
	s.core.sessionEnded(s, s.lost)
	close(s.done)
	s.stop()
	switch {
	case c == nil:
	case gone || s.lost.Reason == zkrecipes.LossExpired:
		_ = c.Close()
	default:
		c.goodbye()
	}
}

// over reports that the session is, and that everybody has been told: nobody comes onto the list any more. Called with mu
// held.
func (s *session) over() bool { return s.lost != nil && s.delivering == 0 }
