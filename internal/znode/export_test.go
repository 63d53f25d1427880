package znode

import "weak"

// SetShortcuts switches the shortcuts and the armed waiters, for queues made from now on.
func SetShortcuts(on bool) { useShortcuts = on }

// Arrange returns the contenders of some kinds among children, in order, and the others.
func Arrange(children []string, kinds ...string) ([]Contender, []string) {
	return arrange(children, kinds)
}

// Shared returns what the queue shares, without keeping it.
func (q *Queue) Shared() weak.Pointer[sharedQueues] { return weak.Make(q.shared) }
