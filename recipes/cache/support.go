package cache

// support records whether the server can set watches without a read, as far as the cache has found out. It counts as
// unable if it refuses, or if three connections in a row end when this is requested. A try may cost the connection, so
// after each failure twice as many rechecks pass before the next try.
type support struct {
	lacking bool
	hangups [3]int // the latest connections, in a row, that ended under a request to set watches
	skip    int    // rechecks until the next try
	skipped int    // how many were skipped last
}

// hungUp records that a connection ended under a request to set watches. It reports whether that makes three in a row.
func (s *support) hungUp(connection int) bool {
	if s.hangups[2] == connection {
		return false
	}
	s.hangups = [3]int{s.hangups[1], s.hangups[2], connection}
	return s.hangups[0] > 0
}

// noteSuccess records that the server has set watches. It reports whether that is news.
func (s *support) noteSuccess() bool {
	news := s.lacking || s.skipped > 0
	*s = support{}
	return news
}

// recheck records that a recheck begins. If it is time for a try, the cache requests watches again, because the
// connections may only have been bad.
func (s *support) recheck() {
	switch {
	case !s.lacking:
	case s.skip > 0:
		s.skip--
	default:
		s.lacking = false
		s.skipped = 2*s.skipped + 1
		s.skip = s.skipped
	}
}
