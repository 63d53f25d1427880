package znode

// A Rule decides whether the contender at me in queue is granted, and if not, which one ahead of it to wait for. It is
// sound if a granted contender never conflicts with one ahead of it, and if a waiting contender cannot be granted
// before its predecessor has left. It considers only the contenders ahead of me.
type Rule func(queue []Contender, me int) (predecessor int, granted bool)

// First grants the contender at the head. Each of the others waits for the one just ahead, so a contender that leaves
// wakes one waiter, or two if waiters look early.
func First(_ []Contender, me int) (int, bool) { return me - 1, me == 0 }

// NoWriterAhead grants a reader that has no writer ahead of it. The others wait for the nearest writer.
//
// Curator's reader waits for the writer furthest ahead. Each reader is free to choose, and by waiting for the nearest
// it looks only once instead of once for each writer.
func NoWriterAhead(queue []Contender, me int) (int, bool) {
	for i := me - 1; i >= 0; i-- {
		if queue[i].Writes() {
			return i, false
		}
	}
	return 0, true
}

// atThePlaceOf grants a contender that has the same key as the contender of the given name ahead of it. If that one has
// left, the contender is never granted. Matching by kind would not suffice: in a queue that was deleted and recreated,
// another writer may have the same key.
func atThePlaceOf(name string) Rule {
	return func(queue []Contender, me int) (int, bool) {
		for i := me - 1; i >= 0 && queue[i].Key == queue[me].Key; i-- {
			if queue[i].Name == name {
				return i, true
			}
		}
		return 0, false
	}
}
