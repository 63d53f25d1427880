package session

import "time"

// WatchesKept returns how many shared watches the session keeps.
func (s *Session) WatchesKept() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.byKey)
}

// StartUnwatch is the part of Unwatch before its request is sent. It returns a function that sends it.
func (s *Session) StartUnwatch(w *Watch) (remove func()) {
	if !s.watches.drop(w) {
		return func() {}
	}
	r, _ := s.removable(nil, w.key.path)
	return func() { s.removeWatches(r) }
}

// NewAgeOnALine is NewAge for a connection whose loss has not been reported yet, as in a process that was frozen.
func (s *Session) NewAgeOnALine() *Age {
	return &Age{session: s.session, asOf: time.Now(), down: make(chan struct{})}
}

// BytesOfEnd returns how many bytes the end of the session takes, as far as the session knows.
func (s *Session) BytesOfEnd() int { return s.ephemerals.Bytes() }
