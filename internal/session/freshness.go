package session

import (
	"sync"
	"time"
)

// Freshness says how old the answer to a read is, and whether the client will be told of the next change. It is for views, which
// are shown long after they were read. It is safe for concurrent use.
type Freshness struct {
	session *session
	down    <-chan struct{} // closed when the connection is lost that was up at the beginning
	watches []*Watch

	mu   sync.Mutex
	asOf time.Time
}

// Asking is called before the request is sent. If there is no connection then, or another one when the answer comes,
// the answer is never current, and has to be repeated.
func (s *session) Asking() *Freshness {
	return &Freshness{session: s, asOf: time.Now(), down: s.Disconnected()}
}

// Watch adds a watch that the read has set; nil is none. It is called before the freshness is shared.
func (f *Freshness) Watch(w *Watch) {
	if w != nil {
		f.watches = append(f.watches, w)
	}
}

// Current reports whether the connection of the request is up, and a server has answered within the session timeout. So it
// looks at the clock: a process that was frozen for longer finds out with the first look, and so does one to which a large
// reply takes longer to arrive. A caller that waits finds out with LookAgain.
func (f *Freshness) Current() bool {
	select {
	case <-f.down:
		return false
	default:
		return f.session.hears()
	}
}

// LookAgain returns after which time a caller that waits has to look at Current again, although nothing wakes it: only the
// clock, and then an answer to any request, may have changed it.
func (f *Freshness) LookAgain() time.Duration { return f.session.lookAgain() }

// hears reports whether a server has answered a request of the last session timeout.
func (s *session) hears() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.proof.silentUntil())
}

// lookAgain returns how long hears stays true unless a server answers; if it is false, a short time.
func (s *session) lookAgain() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.proof.silentUntil()); left > 0 {
		return left
	}
	return s.proof.timeout / 8
}

// Disconnected is closed when the connection of the request is lost.
func (f *Freshness) Disconnected() <-chan struct{} { return f.down }

// AsOf returns the time of the newest request that is known to agree with what was read. The server sends an event before the
// answer to a later request. So if none of the watches has fired after the look at what was answered last, that answer had
// seen no change. What another connection has answered says nothing.
func (f *Freshness) AsOf() time.Time {
	heard := f.session.heardOn(f.down)
	for _, w := range f.watches {
		if w.HasFired() {
			heard = time.Time{}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watches) > 0 && heard.After(f.asOf) {
		f.asOf = heard
	}
	return f.asOf
}
