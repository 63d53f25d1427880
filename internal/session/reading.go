package session

import (
	"sync"
	"time"
)

// Reading says how old the answer to a read is, and whether the client will be told of the next change. It is for views, which
// are shown long after they were read. It is safe for concurrent use.
type Reading struct {
	session *session
	down    <-chan struct{} // closed when the connection is lost that was up at the beginning
	watches []*Watch

	mu   sync.Mutex
	asOf time.Time
}

// StartReading is called before the request is sent. If there is no connection then, or another one when the answer comes,
// the reading is never current, and has to be repeated.
func (s *session) StartReading() *Reading {
	return &Reading{session: s, asOf: time.Now(), down: s.Disconnected()}
}

// Watch adds a watch that the read has set; nil is none. It is called before the reading is shared.
func (r *Reading) Watch(w *Watch) {
	if w != nil {
		r.watches = append(r.watches, w)
	}
}

// Current reports whether the connection of the reading is up, and a server was heard on it within the session timeout: a
// process that was frozen for longer finds out by the clock.
func (r *Reading) Current() bool {
	return !r.isDown() && time.Since(r.session.Heard()) <= r.session.Timeout()
}

func (r *Reading) isDown() bool {
	select {
	case <-r.down:
		return true
	default:
		return false
	}
}

// Disconnected is closed when the connection of the reading is lost.
func (r *Reading) Disconnected() <-chan struct{} { return r.down }

// AsOf returns the time of the newest request that is known to agree with what was read. The server sends an event before the
// answer to a later request. So if none of the watches has fired after the look at what was answered last, that answer had
// seen no change. What another connection has answered says nothing.
func (r *Reading) AsOf() time.Time {
	heard := r.session.Heard()
	for _, w := range r.watches {
		if w.HasFired() {
			heard = time.Time{}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watches) > 0 && heard.After(r.asOf) && !r.isDown() {
		r.asOf = heard
	}
	return r.asOf
}
