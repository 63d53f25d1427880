package znode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes"
)

// The names that Curator gives to contenders, up to the sequence number.
const (
	Lock  = "lock-"    // mutex, and an election laid out as LeaderSelector's
	Latch = "latch-"   // an election laid out as LeaderLatch's
	Read  = "__READ__" // readers and writers share a queue
	Write = "__WRIT__"
	Lease = "lease-"
)

// The names that kazoo gives to contenders. Its Lock and its WriteLock have the same. A queue that has one of these kinds is
// shared with kazoo.
const (
	KazooLock  = "__lock__"
	KazooRead  = "__rlock__"
	KazooLease = "*" // any other child: kazoo's semaphore counts them all, and gives its leases no number
)

func isKazoo(kind string) bool { return kind == KazooLock || kind == KazooRead || kind == KazooLease }

// withKazoo returns the kinds, and those that kazoo has in their place.
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

// Contender is one child of a queue that takes part in its order.
type Contender struct {
	Name string // _c_<uuid>-<kind><key>, or as another library calls it
	Kind string // one of the queue's kinds
	Key  string // what the queue is ordered by, as text: the sequence number; empty for KazooLease, which is ahead of all
}

// parse reads a child's name as Curator's sorter does: the key is what follows the last kind. A contender has one of the
// kinds, and its key is a sequence number: a lock at /locks/clock-sync is no contender of a lock at /locks. The GUID is
// not looked at, because other libraries may have none.
func parse(name string, kinds []string) (Contender, bool) {
	c := Contender{Name: name, Key: name}
	for _, kind := range kinds {
		if i := strings.LastIndex(c.Key, kind); i >= 0 && kind != KazooLease {
			c.Kind, c.Key = kind, c.Key[i+len(kind):]
		}
	}
	if c.Kind != "" && IsNumber(c.Key) {
		return c, true
	}
	return Contender{Name: name, Kind: KazooLease}, slices.Contains(kinds, KazooLease)
}

// Writes reports whether c excludes all others on a read-write lock.
func (c Contender) Writes() bool { return c.Kind == Write || c.Kind == KazooLock }

// IsNumber reports whether key is what a server appends to a sequential node: %010d, which is negative past the end of
// the sequence.
func IsNumber(key string) bool {
	digits := strings.TrimPrefix(key, "-")
	return (len(key) == 10 || len(digits) == 10) && onlyDigits(digits)
}

// numberBefore returns the number before that of key, as a server writes it; "" if there is none.
func numberBefore(key string) string {
	n, err := strconv.Atoi(key)
	if err != nil || n < 1 {
		return ""
	}
	return fmt.Sprintf("%010d", n-1)
}

func onlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// looksSequential reports whether a name ends as that of a sequential node does.
func looksSequential(name string) bool { return len(name) >= 10 && onlyDigits(name[len(name)-10:]) }

// compare orders contenders as Curator does, by the key as text, also past the end of the sequence. Keys are equal only
// for a writer and the reader it became, and then the order does not matter, but all must see the same.
func compare(a, b Contender) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return cmp.Or(-strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// arrange returns the contenders among children in the order of the queue, and the children that are none.
func arrange(children, kinds []string) (queue []Contender, foreign []string) {
	queue, foreign = pick(children, kinds)
	slices.SortFunc(queue, compare)
	return queue, foreign
}

// pick returns the contenders among children, in no order, and the children that are none.
func pick(children, kinds []string) (queue []Contender, foreign []string) {
	queue = make([]Contender, 0, len(children))
	for _, name := range children {
		if c, ok := parse(name, kinds); ok {
			queue = append(queue, c)
		} else {
			foreign = append(foreign, name)
		}
	}
	return queue, foreign
}

// arrangeAhead brings c and the contenders ahead of it into order at the front, with the others in no order after them. It
// returns the place of c, or -1 if c is not there. A waiter that is woken by its predecessor finds few contenders ahead, and
// need not sort a thousand behind it.
func arrangeAhead(queue []Contender, c Contender) int {
	ahead, at := 0, -1
	for i := range queue {
		switch order := compare(queue[i], c); {
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
	slices.SortFunc(queue[:ahead], compare)
	if at < 0 {
		return -1
	}
	queue[ahead], queue[at] = queue[at], queue[ahead]
	return ahead
}

// checkKey refuses the sequence number of a node of ours from which order cannot be told. At its end the counter sticks
// at 2147483647 for one create after the other, and creates in flight together get negative numbers.
func checkKey(key string) error {
	digits := len(key) == 10 && onlyDigits(key)
	if !digits || key >= "2147483647" {
		return fmt.Errorf("%w (%q)", zkrecipes.ErrSequenceExhausted, key)
	}
	return nil
}
