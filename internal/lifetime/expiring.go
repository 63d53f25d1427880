package lifetime

import "time"

// OnExpiring makes the session call f once, as soon as no more than lead remains until ValidUntil, whether time has
// passed or the deadline has moved back. A call may begin as the session ends; after that, and after stop, f is no
// longer called, although a call may still be running.
//
// f is called on the heartbeat goroutine and must not block.
func (l *Lifetime) OnExpiring(lead time.Duration, f func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.upkeep.AddWarning(lead, f)
	l.wakeHeartbeatBefore(l.upkeep.WarningDue(w))
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.upkeep.Forget(w)
	}
}

// deadlineMoved makes the heartbeat take a step if the deadline has moved back to before its next planned step. The
// caller holds mu.
func (l *Lifetime) deadlineMoved() { l.wakeHeartbeatBefore(l.upkeep.NextDue()) }
