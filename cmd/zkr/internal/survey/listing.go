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

// isKazooSemaphore reports whether path is a semaphore in kazoo's layout.
func (l listing) isKazooSemaphore(path string) bool {
	_, door := l[path+layout.KazooDoor]
	return door && !l.has(path, layout.Lock, layout.Latch, layout.Read, layout.Write, layout.KazooLock, layout.KazooRead)
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
	queue   *Queue
	waiting bool // its contenders have no permit yet
	node    string
	list    []*Contender
}

// parts returns what the nodes of a queue contribute to it, and recognizes a semaphore. hasLimit reports whether the
// node at its path holds the limit.
func (l listing) parts(q *Queue) (all []*part, hasLimit bool) {
	all = []*part{{queue: q, node: q.Path}}
	switch {
	case l.isSemaphore(q.Path):
		q.Kind = "semaphore"
		all = []*part{
			{queue: q, node: join(q.Path, layout.Leases)},
			{queue: q, node: join(q.Path, layout.Door), waiting: true},
		}
	case l.isKazooSemaphore(q.Path):
		q.Kind, hasLimit = "semaphore", true
		all = append(all, &part{queue: q, node: q.Path + layout.KazooDoor, waiting: true})
	}
	for _, p := range all {
		p.list = l.contenders(p.node, q.Kind == "semaphore" && !p.waiting)
		for _, c := range p.list {
			if q.Kind == "semaphore" && c.named.Kind != "" {
				c.Mode = "permit" // that it has or waits for
			}
		}
	}
	return all, hasLimit
}

// contenders returns the children of path that are contenders or look like them.
func (l listing) contenders(path string, permits bool) []*Contender {
	var list []*Contender
	for _, name := range l[path] {
		named, ok := layout.Parse(name)
		switch {
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
