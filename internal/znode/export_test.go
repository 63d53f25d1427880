package znode

// SetShortcuts switches shortcuts and armed waiters on or off for queues created from now on.
func SetShortcuts(on bool) { useShortcuts = on }

// Arrange returns the contenders of the given kinds among children, in order, and the other children.
func Arrange(children []string, kinds ...string) ([]Contender, []string) {
	return arrange(children, kinds)
}

// PlacesKept returns the number of entries in the places of the newest session.
func (q *Queue) PlacesKept() int {
	p := &q.newest.places
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.passedOn) + len(p.names) + len(p.added)
}
