package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// runHeartbeat ends what has run out, and keeps the proof fresh, until the session ends. Every step works out anew what is
// due, so an extra step does no harm, and no step is ever cancelled.
func (s *session) runHeartbeat() {
	timer := time.NewTimer(0)
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.done:
			return
		}
		timer.Reset(time.Until(s.heartbeat(time.Now())))
	}
}

// wakeHeartbeat makes the heartbeat take a step now.
func (s *session) wakeHeartbeat() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wakeHeartbeatBefore makes the heartbeat take a step by due at the latest. If a step is planned before that, it works out
// then what is due, so a short hold costs no step of its own. Called with mu held.
func (s *session) wakeHeartbeatBefore(due time.Time) {
	if due.Before(s.nextHeartbeat) {
		s.wakeHeartbeat()
	}
}

// heartbeat does what is due, and returns when the next step is due.
func (s *session) heartbeat(now time.Time) time.Time {
	s.mu.Lock()
	notices := s.lapseIfDue(now)
	silent := s.proof.silentUntil()
	if s.connection != nil {
		silent = latest(silent, s.connection.Arrived().Add(s.proof.timeout))
	}
	due := silent
	if len(s.callbacks) > 0 {
		due = earliest(due, s.proof.validUntil())
	}
	warn, warningDue := s.nextWarning(now)
	due = soonest(due, warningDue)
	syncDue, syncNow, drop := s.nextSync(now)
	c := s.connection
	due = earliest(due, syncDue)
	if syncNow {
		s.syncing, s.lastSync = true, now
	}
	s.nextHeartbeat = due
	s.mu.Unlock()
	notices.deliver()
	for _, f := range warn {
		f()
	}

	if !now.Before(silent) {
		s.end(lost(zkrecipes.LossDeadline, silent, errors.New("nothing answered for a whole session timeout")))
		return now
	}
	if drop {
		c.Fail(fmt.Errorf("no answer to a sync for %v: trying another server", rounded(s.Timeout()/4)))
	}
	if syncNow {
		s.core.start(s.sendSync)
	}
	return due
}

// nextSync works out when the next sync is due, whether that is now, and whether the connection is to be dropped because a
// sync was unanswered for too long. Called with mu held.
func (s *session) nextSync(now time.Time) (due time.Time, syncNow, drop bool) {
	timeout := s.proof.least
	far := now.Add(timeout)
	if s.retained == 0 || !s.isUp() {
		return far, false, false
	}
	due = far
	if oldest := s.connection.OldestSync(); !oldest.IsZero() {
		overdue := latest(oldest, s.connection.Arrived()).Add(timeout / 4)
		if !now.Before(overdue) {
			return far, false, true
		}
		due = overdue
	}
	if !s.syncing {
		next := s.lastSync.Add(timeout / 8)
		if ripe := s.proof.ripe(); s.lastSync.Before(ripe) && !s.lasts(timeout/8) {
			next = earliest(next, ripe)
		}
		if !now.Before(next) {
			return earliest(due, now.Add(timeout/4)), true, false // the answer wakes the heartbeat before that
		}
		due = earliest(due, next)
	}
	return due, false, false
}

// sendSync sends a sync, and a barrier with it if a hold needs one; see proof. The connection books the answers as proof.
func (s *session) sendSync() {
	view := &Session{session: s}
	requests := []request{view.syncRequest("/", func(_ string, err error) {
		if err != nil {
			s.core.opts.Log.Debug("zookeeper: sync", "error", err)
		}
		s.mu.Lock()
		s.syncing = false
		s.mu.Unlock()
		s.wakeHeartbeat()
	})}
	s.mu.Lock()
	c, barrier := s.connection, s.wantsBarrier()
	if barrier {
		s.confirming = c
	}
	s.mu.Unlock()
	if barrier {
		requests = append(requests, view.barrierRequest(func(_ transaction, err error) {
			if err != nil {
				s.barrierRefused(c)
				s.core.opts.Log.Debug("zookeeper: barrier", "error", err)
			}
		}))
	}
	s.send(s.ctx, nil, requests)
}

// wantsBarrier reports whether there is a hold, and no write has confirmed yet that the connection resumed the session.
// Called with mu held.
func (s *session) wantsBarrier() bool {
	return len(s.callbacks) > 0 && s.proof.doubtful() && s.confirming != s.connection
}

// barrierRefused makes another barrier due on the connection.
func (s *session) barrierRefused(c *link.Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirming == c {
		s.confirming = nil
	}
}

// hurryBarrier makes a sync due now if a hold needs the barrier that goes with it. Called with mu held.
func (s *session) hurryBarrier() {
	if s.wantsBarrier() {
		s.lastSync = time.Time{}
		s.wakeHeartbeat()
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Retain keeps the proof fresh until release is called: a sync goes out every eighth of the timeout. If a sync is unanswered
// for a quarter of the timeout, the connection is dropped, so that another server is tried in good time.
func (s *session) Retain() (release func()) {
	s.mu.Lock()
	s.retained++
	if s.retained == 1 {
		if s.lasts(s.proof.least / 8) {
			s.lastSync = time.Now() // the first sync has time, and a short hold needs none
		}
		s.wakeHeartbeatBefore(s.lastSync.Add(s.proof.least / 8))
	}
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retained--
	})
}
