// Package layout reads queues of unknown kind from the names of their nodes: who is in a queue, in which order, who
// holds, and what each of the others waits for. The queues are the locks, elections and semaphores of this module,
// of Curator and of kazoo. It is for tools such as zkr, which read the nodes themselves; a program asks its recipe,
// as with [github.com/zkrecipes/zkrecipes/recipes/mutex.Mutex.Queue].
package layout

import (
	"cmp"
	"slices"
	"strings"
)

// The names that Curator gives to contenders, up to the sequence number. Those of this module are the same.
const (
	Lock  = "lock-"    // mutex, and an election laid out as LeaderSelector's
	Latch = "latch-"   // an election laid out as LeaderLatch's
	Read  = "__READ__" // readers and writers share a queue
	Write = "__WRIT__"
	Lease = "lease-"
)

// The names that kazoo gives to contenders. Its Lock and its WriteLock have the same.
const (
	KazooLock  = "__lock__"
	KazooRead  = "__rlock__"
	KazooLease = "*" // any other child: kazoo's semaphore counts them all, and gives its leases no number
)

// A semaphore of Curator has its leases and its waiters below its path. A semaphore of kazoo has its leases as
// children of its path, and its waiters at a path beside it, which ends in KazooDoor.
const (
	Leases    = "leases"
	Door      = "locks"
	KazooDoor = "-__lock__"
)

// RevokeRequest is the data by which a holder is asked to release, in place of its own. Curator's Revoker writes
// them, too. kazoo does not know them.
const RevokeRequest = "__REVOKE__"

// numbered are the kinds whose names end in a sequence number.
var numbered = []string{Lock, Latch, Read, Write, Lease, KazooLock, KazooRead}

// Contender is one child of a queue that takes part in its order.
type Contender struct {
	// Name of the node: _c_<uuid>-<kind><key>, or as another library calls it.
	Name string
	// Kind is one of the constants above.
	Kind string
	// Key is what the queue is ordered by, as text: the sequence number. It is empty for KazooLease, which is
	// ahead of all.
	Key string
}

// Parse reads the name of a node as Curator's sorter does: the key is what follows the last kind. A contender has
// one of the kinds, by default any but KazooLease, and its key is a sequence number: a lock at /locks/clock-sync is
// no contender of a lock at /locks. The GUID is ignored, because other libraries may have none.
func Parse(name string, kinds ...string) (c Contender, ok bool) {
	if len(kinds) == 0 {
		kinds = numbered
	}
	c = Contender{Name: name, Key: name}
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

// reads reports whether c holds beside others of its kind.
func (c Contender) reads() bool { return c.Kind == Read || c.Kind == KazooRead }

// Exhausted reports that order cannot be told from the sequence number of a contender. At its end the counter sticks
// at 2147483647 for one create after the other, and creates in flight together get negative numbers.
func (c Contender) Exhausted() bool {
	return len(c.Key) != 10 || !onlyDigits(c.Key) || c.Key >= "2147483647"
}

// Compare orders contenders as Curator does, by the key as text, also past the end of the sequence. Keys are equal
// only for a writer and the reader it became, and then the order does not matter, but all must see the same.
func Compare(a, b Contender) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return cmp.Or(-strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// Ahead returns the place of the contender that the one at me waits for, in a queue that is in order, and -1 if it
// holds: the first does, a reader without a writer ahead, and the reader that the first writer became. A waiter at
// the door of a semaphore waits as for a lock. Which one ahead Curator's readers wait for is their own affair.
func Ahead(queue []Contender, me int) int {
	switch c := queue[me]; {
	case me == 0, c.Key == queue[0].Key:
		return -1
	case !c.reads():
		return me - 1
	}
	for i := me - 1; i >= 0; i-- {
		if !queue[i].reads() {
			return i
		}
	}
	return -1
}

// IsNumber reports whether key is what a server appends to a sequential node: %010d, which is negative past the end
// of the sequence.
func IsNumber(key string) bool {
	digits := strings.TrimPrefix(key, "-")
	return (len(key) == 10 || len(digits) == 10) && onlyDigits(digits)
}

// LooksSequential reports whether a name ends as that of a sequential node does. A child that does, is ephemeral and
// is no contender may be one of another library.
func LooksSequential(name string) bool { return len(name) >= 10 && onlyDigits(name[len(name)-10:]) }

func onlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
