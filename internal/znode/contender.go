package znode

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/layout"
)

// Contender is one child of a queue that takes part in its order.
type Contender = layout.Contender

// The kinds of contenders. A queue with one of kazoo's kinds is shared with kazoo.
const (
	Lock       = layout.Lock
	Latch      = layout.Latch
	Read       = layout.Read
	Write      = layout.Write
	Lease      = layout.Lease
	KazooLock  = layout.KazooLock
	KazooRead  = layout.KazooRead
	KazooLease = layout.KazooLease
)

func isKazoo(kind string) bool { return kind == KazooLock || kind == KazooRead || kind == KazooLease }

// withKazoo returns the kinds together with kazoo's counterparts.
func withKazoo(kinds []string) []string {
	both := slices.Clone(kinds)
	for _, kind := range kinds {
		if kind == Read {
			both = append(both, KazooRead)
		} else {
			both = append(both, KazooLock)
		}
	}
	return both
}

// numberBefore returns the number before that of key in the server's format, or "" if there is none.
func numberBefore(key string) string {
	n, err := strconv.Atoi(key)
	if err != nil || n < 1 {
		return ""
	}
	return fmt.Sprintf("%010d", n-1)
}

// arrange returns the contenders among children in queue order, and the children that are not contenders.
func arrange(children, kinds []string) (queue []Contender, foreign []string) {
	queue, foreign = pick(children, kinds)
	slices.SortFunc(queue, layout.Compare)
	return queue, foreign
}

// pick returns the contenders among children in no particular order, and the children that are not contenders.
func pick(children, kinds []string) (queue []Contender, foreign []string) {
	queue = make([]Contender, 0, len(children))
	for _, name := range children {
		if c, ok := layout.Parse(name, kinds...); ok {
			queue = append(queue, c)
		} else {
			foreign = append(foreign, name)
		}
	}
	return queue, foreign
}

// arrangeAhead moves the contenders ahead of c, in order, and then c to the front, and leaves the others in no
// particular order after them. It returns the index of c, or -1 if c is missing. A waiter woken by its predecessor
// finds few contenders ahead, and doesn't have to sort a thousand behind it.
func arrangeAhead(queue []Contender, c Contender) int {
	ahead, at := 0, -1
	for i := range queue {
		switch order := layout.Compare(queue[i], c); {
		case order < 0:
			queue[ahead], queue[i] = queue[i], queue[ahead]
			if at == ahead {
				at = i
			}
			ahead++
		case order == 0:
			at = i
		}
	}
	slices.SortFunc(queue[:ahead], layout.Compare)
	if at < 0 {
		return -1
	}
	queue[ahead], queue[at] = queue[at], queue[ahead]
	return ahead
}

// checkSequence returns an error if the sequence number of one of our nodes no longer determines its order: from
// 2147483647 on, or if it is negative. The queue is then unusable until its parent is deleted.
func checkSequence(c Contender) error {
	if c.Exhausted() {
		return fmt.Errorf("%w (%q)", zkrecipes.ErrSequenceExhausted, c.Key)
	}
	return nil
}
