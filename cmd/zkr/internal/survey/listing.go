package survey

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/layout"
)

// listing maps paths to the names of their children. It derives from the names which queues exist.
type listing map[string][]string

// has reports whether path has a child of one of the kinds.
func (l listing) has(path string, kinds ...string) bool {
	return slices.ContainsFunc(l[path], func(name string) bool {
		_, ok := layout.Parse(name, kinds...)
		return ok
	})
}

// isLease reports whether a child of path is a lease of kazoo, whose name has no number.
func (l listing) isLease(path, name string) bool {
	if !NamesKazooLease(name) {
		return false
	}
	if _, read := l[path+layout.KazooDoor]; read {
		return true
	}
	return slices.Contains(l[parent(path)], base(path)+layout.KazooDoor)
}

// isSemaphore reports whether path is a semaphore of Curator.
func (l listing) isSemaphore(path string) bool {
	return l.has(join(path, layout.Leases), layout.Lease) || slices.Contains(l[path], layout.Leases) &&
		l.has(join(path, layout.Door), layout.Lock)
}

// ofLocks are the kinds of contenders that have their recipe's path as their parent, unless it is a semaphore.
var ofLocks = []string{layout.Lock, layout.Latch, layout.Read, layout.Write, layout.KazooLock, layout.KazooRead}

// isKazooSemaphore reports whether path is a semaphore in kazoo's layout. kazoo never deletes the door, so a door next
// to the contenders of a lock proves nothing unless there are leases too.
func (l listing) isKazooSemaphore(path string) bool {
	_, door := l[path+layout.KazooDoor]
	return door && (!l.has(path, ofLocks...) || l.has(path, layout.Lease) || slices.ContainsFunc(l[path], NamesKazooLease))
}

// isQueue reports whether path is a queue, and not part of one.
func (l listing) isQueue(path string) bool {
	if b := base(path); (b == layout.Leases || b == layout.Door) && l.isSemaphore(parent(path)) {
		return false
	}
	if of, is := strings.CutSuffix(path, layout.KazooDoor); is && l.isKazooSemaphore(of) {
		if _, there := l[of]; there {
			return false
		}
	}
	return l.isSemaphore(path) || l.isKazooSemaphore(path) ||
		slices.ContainsFunc(l[path], func(name string) bool { return isContender(name) || layout.LooksSequential(name) })
}

func isContender(name string) bool {
	_, ok := layout.Parse(name)
	return ok
}

// part is what one node contributes to a queue.
type part struct {
	queue *Queue
	role  role
	node  string
	list  []*Contender
}

// role is what the contenders of a part are.
type role int

const (
	lease  role = iota // a permit, or any contender of a queue that is not a semaphore
	waiter             // for permits
	other              // of a lock or an election that shares the path with a semaphore
)

// parts returns what the nodes of a queue contribute to it, and recognizes semaphores. hasLimit reports whether the
// node at its path holds the limit.
func (l listing) parts(q *Queue) (all []*part, hasLimit bool) {
	own, kazoos := l.isSemaphore(q.Path), l.isKazooSemaphore(q.Path)
	if !own && !kazoos {
		return []*part{{queue: q, node: q.Path, list: l.contenders(q.Path, false)}}, false
	}
	q.Kind = "semaphore"
	add := func(r role, node string) {
		p := &part{queue: q, role: r, node: node, list: l.contenders(node, r == lease)}
		for _, c := range p.list {
			if c.named.Kind != "" {
				c.Mode = "permit" // that it has or waits for
			}
		}
		all = append(all, p)
	}
	if own {
		add(lease, join(q.Path, layout.Leases))
		add(waiter, join(q.Path, layout.Door))
	}
	if kazoos {
		add(lease, q.Path)
		add(waiter, q.Path+layout.KazooDoor)
	}
	others := slices.DeleteFunc(l.contenders(q.Path, false), func(c *Contender) bool { return !c.ofLock() })
	return append(all, &part{queue: q, role: other, node: q.Path, list: others}), kazoos && !own && len(others) == 0
}

// contenders returns the children of path that are contenders or look like them. With permits, these are leases.
func (l listing) contenders(path string, permits bool) []*Contender {
	var list []*Contender
	for _, name := range l[path] {
		named, ok := layout.Parse(name)
		switch {
		case ok && permits && slices.Contains(ofLocks, named.Kind):
			continue
		case ok:
		case permits && NamesKazooLease(name): // of the kind that Parse returns
		case layout.LooksSequential(name):
			named.Kind = ""
		default:
			continue
		}
		kind := kinds[named.Kind]
		c := &Contender{
			Node: join(path, name), named: named, Mode: cmp.Or(kind.mode, foreign),
			Library: cmp.Or(kind.library, foreign),
		}
		list = append(list, c)
	}
	return list
}

func join(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
