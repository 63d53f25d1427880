package znode

// A Rule says whether the contender at me in queue is granted; if not, which one ahead of it to wait for. It is sound if
// a contender that is granted never conflicts with one ahead of it, and if one that waits cannot be granted before the
// one it waits for has left.
//
// One that waits for nobody in particular says Anyone, and looks again whenever the queue has changed.
type Rule func(queue []Contender, me int) (predecessor int, granted bool)

// Anyone is the predecessor of one that waits for whoever leaves first.
const Anyone = -1

// First grants whoever is first, and lets the others wait for the one just ahead: every departure wakes one.
func First(_ []Contender, me int) (int, bool) { return me - 1, me == 0 }

// NoWriterAhead grants readers without a writer ahead of them, and lets the others wait for the nearest one.
//
// Curator waits for the writer furthest ahead; which one a reader waits for is its own affair, and with the nearest it
// looks once and not once for each of them.
func NoWriterAhead(queue []Contender, me int) (int, bool) {
	for i := me - 1; i >= 0; i-- {
		if queue[i].Kind == Write {
			return i, false
		}
	}
	return 0, true
}

// beside grants a contender that shares its key with one of the given kind ahead of it, as long as that is there.
// Whoever does not get it at once never will.
func beside(kind string) Rule {
	return func(queue []Contender, me int) (int, bool) {
		for i := me - 1; i >= 0 && queue[i].Key == queue[me].Key; i-- {
			if queue[i].Kind == kind {
				return i, true
			}
		}
		return 0, false
	}
}

// Within grants n contenders that were made together as long as they and those ahead of them are no more than the limit.
// Those behind are not counted: they count these.
func Within(limit, n int) Rule {
	return func(_ []Contender, me int) (int, bool) { return Anyone, me+n <= limit }
}
