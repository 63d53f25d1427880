package session

// WatchesKept returns how many shared watches the session keeps.
func (s *Session) WatchesKept() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.set)
}
