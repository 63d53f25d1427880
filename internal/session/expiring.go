package session

import "time"

// warning is a call that is due when the deadline is near.
type warning struct {
	lead time.Duration
	f    func()
}

// OnExpiring makes the session call f once, as soon as at most lead is left of ValidUntil, also if the deadline moves back.
// After stop, f is not called any more; it may be running then. Nor is it called after the session has ended.
//
// f is called on the heartbeat goroutine and must not wait for anything.
func (s *session) OnExpiring(lead time.Duration, f func()) (stop func()) {
	w := &warning{lead, f}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warnings == nil {
		s.warnings = make(map[*warning]struct{})
	}
	s.warnings[w] = struct{}{}
	s.wakeHeartbeatBefore(s.warningDue(w))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.warnings, w)
	}
}

// warningDue is called with mu held.
func (s *session) warningDue(w *warning) time.Time { return s.proof.validUntil().Add(-w.lead) }

// nextWarning takes the warnings that are due by now off the list, and works out when the next one is due; zero if there is
// none. Called with mu held.
func (s *session) nextWarning(now time.Time) (warn []func(), next time.Time) {
	for w := range s.warnings {
		due := s.warningDue(w)
		if now.Before(due) {
			next = soonest(next, due)
			continue
		}
		delete(s.warnings, w)
		warn = append(warn, w.f)
	}
	return warn, next
}

// deadlineMoved makes the heartbeat take a step if the deadline has moved back past what the heartbeat has planned. Called
// with mu held.
func (s *session) deadlineMoved() {
	s.wakeHeartbeatBefore(s.proof.validUntil())
	for w := range s.warnings {
		s.wakeHeartbeatBefore(s.warningDue(w))
	}
}
