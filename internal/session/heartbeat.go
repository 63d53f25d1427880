package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
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
	step := s.upkeep.Step(now, len(s.callbacks) > 0, s.line())
	s.nextHeartbeat = step.Next
	c := s.connection
	s.mu.Unlock()
	notices.deliver()
	for _, f := range step.Warn {
		f()
	}

	if !now.Before(step.Silent) {
		s.end(lost(zkrecipes.LossDeadline, step.Silent, errors.New("nothing answered for a whole session timeout")))
		return now
	}
	if step.Drop {
		c.Fail(fmt.Errorf("no answer to a sync for %v: trying another server", rounded(s.Timeout()/4)))
	}
	if step.Sync {
		s.owner.Start(s.sendSync)
	}
	return step.Next
}

// line returns what the heartbeat looks at of the connection. Called with mu held.
func (s *session) line() liveness.Line {
	if s.connection == nil {
		return liveness.Line{}
	}
	return liveness.Line{Up: s.isUp(), OldestSync: s.connection.OldestSync(), Arrived: s.connection.Arrived()}
}

// sendSync sends a sync, and a barrier with it if a hold needs one; see [liveness.Proof]. The connection books the answers as proof.
func (s *session) sendSync() {
	view := &Session{session: s}
	requests := []request{view.syncRequest("/", func(_ string, err error) {
		if err != nil {
			s.opts.Log.Debug("zookeeper: sync", "error", err)
		}
		s.mu.Lock()
		s.upkeep.SyncDone()
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
				s.opts.Log.Debug("zookeeper: barrier", "error", err)
			}
		}))
	}
	s.send(s.ctx, nil, requests)
}

// wantsBarrier reports whether there is a hold, and no write has confirmed yet that the connection resumed the session.
// Called with mu held.
func (s *session) wantsBarrier() bool {
	return len(s.callbacks) > 0 && s.upkeep.Doubtful() && s.confirming != s.connection
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
		s.upkeep.HurrySync()
		s.wakeHeartbeat()
	}
}

// Retain keeps the proof fresh until release is called: a sync goes out every eighth of the timeout. If a sync is unanswered
// for a quarter of the timeout, the connection is dropped, so that another server is tried in good time.
func (s *session) Retain() (release func()) {
	s.mu.Lock()
	if s.upkeep.Retain(time.Now()) {
		s.wakeHeartbeatBefore(s.upkeep.SyncDue())
	}
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.upkeep.Release()
	})
}
