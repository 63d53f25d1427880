package session

import (
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// keep is the session's clock: it ends what has run out, and keeps the proof fresh. Every step works out anew what is
// due from what is known, so a step too many does no harm, and none needs to be cancelled.
func (s *session) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.done:
			return
		}
		timer.Reset(time.Until(s.step(time.Now())))
	}
}

// nudge wakes the keeper.
func (s *session) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// nudgeBefore wakes the keeper if it would sleep past due. Called with mu held. A step works out all that is due when it
// runs, so one that comes no later than due will do, and short holds need none of their own.
func (s *session) nudgeBefore(due time.Time) {
	if due.Before(s.nextStep) {
		s.nudge()
	}
}

// step does what is due, and returns when it wants to be called next.
func (s *session) step(now time.Time) time.Time {
	s.mu.Lock()
	gone := s.lapseIfDue(now)
	silent := s.proof.silentUntil()
	due := silent
	if len(s.subs) > 0 {
		due = earliest(due, s.proof.validUntil())
	}
	beatDue, beat, drop := s.heartbeat(now)
	link := s.link
	due = earliest(due, beatDue)
	if beat {
		s.beating, s.lastBeat = true, now
	}
	s.nextStep = due
	s.mu.Unlock()
	gone.tell()

	if !now.Before(silent) {
		s.end(lost(zkrecipes.LossDeadline, silent, errors.New("nothing answered for a whole session timeout")))
		return now
	}
	if drop {
		s.core.opts.Log.Info("zookeeper: no answer to a sync, trying another server", "server", link.server)
		_ = link.Close() // the library reconnects
	}
	if beat {
		s.core.start(s.beat)
	}
	return due
}

// heartbeat works out when the next sync is due, whether it is now, and whether one has been unanswered for too long.
// Called with mu held.
func (s *session) heartbeat(now time.Time) (due time.Time, beat, drop bool) {
	timeout := s.proof.least
	far := now.Add(timeout)
	if s.retained == 0 || !s.isUp() {
		return far, false, false
	}
	due = far
	if oldest := s.link.oldestSync(); !oldest.IsZero() {
		overdue := oldest.Add(timeout / 4)
		if !now.Before(overdue) {
			return far, false, true
		}
		due = overdue
	}
	if !s.beating {
		next := s.lastBeat.Add(timeout / 8)
		if !now.Before(next) {
			return earliest(due, now.Add(timeout/8)), true, false
		}
		due = earliest(due, next)
	}
	return due, false, false
}

// beat is one sync, and with it, where a hold needs that, a barrier; see proof. The answers are booked by the link.
func (s *session) beat() {
	view := &Session{session: s}
	requests := []request{view.syncRequest("/", func(_ string, err error) {
		if err != nil {
			s.core.opts.Log.Debug("zookeeper: sync", "error", err)
		}
		s.mu.Lock()
		s.beating = false
		s.mu.Unlock()
		s.nudge()
	})}
	s.mu.Lock()
	l, barrier := s.link, s.wantsBarrier()
	if barrier {
		l.barrier.Store(true)
	}
	s.mu.Unlock()
	if barrier {
		requests = append(requests, view.barrierRequest(func(_ transaction, err error) {
			if err != nil {
				l.barrier.Store(false)
				s.core.opts.Log.Debug("zookeeper: barrier", "error", err)
			}
		}))
	}
	s.send(nil, requests)
}

// wantsBarrier reports whether somebody holds, and a write has yet to confirm that the link has resumed the session. Called
// with mu held.
func (s *session) wantsBarrier() bool {
	return len(s.subs) > 0 && s.proof.doubtful() && !s.link.barrier.Load()
}

// hurry makes a beat due if it is wanted for its barrier. Called with mu held.
func (s *session) hurry() {
	if s.wantsBarrier() {
		s.lastBeat = time.Time{}
		s.nudge()
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
