package session

import "time"

// OnExpiring makes the session call f once, as soon as at most lead is left of ValidUntil, also if the deadline moves back.
// After stop, f is not called any more; it may be running then. Nor is it called after the session has ended.
//
// f is called on the heartbeat goroutine and must not wait for anything.
func (s *session) OnExpiring(lead time.Duration, f func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.upkeep.Expect(lead, f)
	s.wakeHeartbeatBefore(s.upkeep.WarningDue(w))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.upkeep.Forget(w)
	}
}

// deadlineMoved makes the heartbeat take a step if the deadline has moved back past what the heartbeat has planned. Called
// with mu held.
func (s *session) deadlineMoved() { s.wakeHeartbeatBefore(s.upkeep.DeadlineDue()) }
