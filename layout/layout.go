// Package layout reads queues of unknown kind from the names of their nodes: who is in a queue and in what order, who
// holds, and what each waiter waits for. It knows the locks, elections and semaphores of this module, of Curator and of
// kazoo. This module's queues order and parse their own contenders with it. It is exported for tools such as zkr, which
// read the nodes themselves. In a program, use your recipe's methods, such as
// [github.com/zkrecipes/zkrecipes/recipes/mutex.Mutex.Queue].
package layout

import (
	"cmp"
	"slices"
	"strings"
)

// The names that Curator and this module give to contenders, without the sequence number.
const (
	Lock  = "lock-"    // a mutex, and an election with the layout of LeaderSelector
	Latch = "latch-"   // an election with the layout of LeaderLatch
	Read  = "__READ__" // readers and writers share a queue
	Write = "__WRIT__"
	Lease = "lease-"
)

// The names that kazoo gives to contenders. Its Lock and its WriteLock use the same name.
const (
	KazooLock  = "__lock__"
	KazooRead  = "__rlock__"
	KazooLease = "*" // any other child: kazoo's semaphore counts all children, and its leases have no number
)

// A semaphore of Curator has its leases and its waiters below its path, at Leases and Door. A semaphore of kazoo has
// its leases as children of its path, and its waiters at that path with KazooDoor appended.
const (
	Leases    = "leases"
	Door      = "locks"
	KazooDoor = "-__lock__"
)

// RevokeRequest is the data that replaces a holder's own data to request its release. Curator's Revoker writes the
// same. kazoo does not support it.
const RevokeRequest = "__REVOKE__"

// numbered are the kinds whose names end in a sequence number.
var numbered = []string{Lock, Latch, Read, Write, Lease, KazooLock, KazooRead}

// Contender is one child of a queue that takes part in its order.
type Contender struct {
	// Name of the node: _c_<uuid>-<kind><key>, or the form of another library.
	Name string
	// Kind is one of the constants above.
	Kind string
	// Key is the sequence number, by which the queue is ordered, as text. It is empty for KazooLease, which
	// precedes all others.
	Key string
}

// Parse parses a node's name in the same way as Curator's sorter, so the key is what follows the last kind. A contender
// has one of the given kinds, by default any except KazooLease, and its key is a sequence number. As a result, a lock
// at /locks/clock-sync is not a contender of a lock at /locks. The GUID is ignored, because other libraries may have
// none.
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

// reads reports whether c can hold concurrently with others of its kind.
func (c Contender) reads() bool { return c.Kind == Read || c.Kind == KazooRead }

// Exhausted reports that c's sequence number no longer determines its place. When the counter runs out, it stays at
// 2147483647 for successive creates, while creates that are in flight together get negative numbers. Kazoo's
// leases have no number.
func (c Contender) Exhausted() bool {
	return c.Kind != KazooLease && (len(c.Key) != 10 || !onlyDigits(c.Key) || c.Key >= "2147483647")
}

// Compare orders contenders in the same way as Curator, by the key as text, even past the end of the sequence. Equal
// keys are those of a writer and the reader it was downgraded to, of contenders created after the counter has run out,
// and of kazoo's leases, which have none. The order of these doesn't matter, as long as all clients agree on it.
func Compare(a, b Contender) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return cmp.Or(-strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// Ahead returns the index of the contender that the one at index me waits for in a sorted queue, or -1 if it holds. The
// holders are the first contender, a reader with no writer ahead, the reader that the first writer was downgraded to,
// and all leases. (The newest leases may not be granted yet, if their session is also the first one at the semaphore's
// door.) A waiter at the door waits as it would for a lock. Curator's readers may wait for a different contender.
func Ahead(queue []Contender, me int) int {
	switch c := queue[me]; {
	case me == 0, c.Kind == Lease, c.Kind == KazooLease, c.Key == queue[0].Key && !c.Exhausted():
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

// IsNumber reports whether key has the form that a server appends to a sequential node's name: %010d, which is
// negative past the end of the sequence.
func IsNumber(key string) bool {
	digits := strings.TrimPrefix(key, "-")
	return (len(key) == 10 || len(digits) == 10) && onlyDigits(digits)
}

// LooksSequential reports whether a name ends like that of a sequential node. An ephemeral child with such a name
// that is not a contender may belong to another library.
func LooksSequential(name string) bool { return len(name) >= 10 && onlyDigits(name[len(name)-10:]) }

func onlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
