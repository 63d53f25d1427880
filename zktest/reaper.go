package zktest

import (
	"slices"
	"time"
)

// reapPause separates two removals of one pass. Source: znode.container.maxPerMinute, 10,000.
const reapPause = 6 * time.Millisecond

// reapLoop removes empty containers and expired nodes with a time to live until the server is closed.
//
// Source: ContainerManager.
func (s *Server) reapLoop() {
	timer := time.NewTimer(s.cfg.reap)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.done:
			return
		}
		timer.Reset(s.cfg.reap)
		s.lock()
		list := s.state.Reapable()
		s.unlock()
		for i, path := range list {
			if i > 0 && !s.sleep(reapPause) {
				return
			}
			s.lock()
			if s.state.Ticks() {
				s.state.Reap(path)
			}
			s.unlock()
		}
	}
}

// sleep waits for d. It returns false if the server was closed first.
func (s *Server) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// Reap immediately runs a pass over containers and nodes with a time to live, without pauses, and returns the paths
// that it removed.
func (s *Server) Reap() []string {
	s.lock()
	defer s.unlock()
	return slices.DeleteFunc(s.state.Reapable(), func(path string) bool { return !s.state.Reap(path) })
}
