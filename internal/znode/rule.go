package znode

// A Rule says whether the contender at me in queue is granted, and if not, which one ahead of it to wait for. It is sound
// if a contender that is granted never conflicts with one ahead of it, and if a contender that waits cannot be granted
// before its predecessor has left. It looks at the contenders ahead of me, and at no others.
type Rule func(queue []Contender, me int) (predecessor int, granted bool)

// First grants the contender at the head. Each of the others waits for the one just ahead, so a contender that leaves wakes
// one.
func First(_ []Contender, me int) (int, bool) { return me - 1, me == 0 }

// NoWriterAhead grants a reader without a writer ahead of it. The others wait for the nearest writer.
//
// Curator's reader waits for the writer furthest ahead. Which one it waits for is its own affair, and with the nearest it
// looks once and not once for each of them.
func NoWriterAhead(queue []Contender, me int) (int, bool) {
	for i := me - 1; i >= 0; i-- {
		if queue[i].Writes() {
			return i, false
		}
	}
	return 0, true
}

// atThePlaceOf grants a contender that shares its key with the one of the given name ahead of it. If that one has left, the
// contender is never granted. A kind would not do: in a queue that was deleted and made again, another writer may have the
// same key.
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
