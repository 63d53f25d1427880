package znode

// SetShortcuts switches the shortcuts and the armed waiters, for queues made from now on.
func SetShortcuts(on bool) { useShortcuts = on }

// Arrange returns the contenders of some kinds among children, in order, and the others.
func Arrange(children []string, kinds ...string) ([]Contender, []string) {
	return arrange(children, kinds)
}

// PlacesKept returns how many entries the places of the newest session have.
func (q *Queue) PlacesKept() int {
	p := &q.newest.places
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.handedOver) + len(p.names) + len(p.added)
}
