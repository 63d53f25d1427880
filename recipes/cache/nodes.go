package cache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// nodes holds the nodes of the cache, including those known only by name, and counts them. It records what was read,
// and reports whether a list of children must be read because of it. It has no clock, no lock and no I/O.
type nodes struct {
	tree
	depth  int                     // levels below the root whose nodes are followed
	filter func(path string) Scope // nil keeps everything
	noData bool

	size   int   // nodes in the tree, including those of which only the name is known
	known  int   // nodes that exist
	bytes  int64 // of data and names
	errs   map[*node]failure
	failed int // parts that have an error

	changing func(*node) // called before an entry changes, or appears
	going    func(*node) // called before a node is removed, or loses its entry
}

func newNodes(path string, depth int) nodes {
	return nodes{
		tree: tree{path: path, root: &node{}}, depth: depth, size: 1, errs: map[*node]failure{},
		changing: func(*node) {}, going: func(*node) {},
	}
}

// failure holds, for each part of a node, why its last read failed.
type failure [2]error

func (f failure) err() error {
	if f[data] != nil {
		return f[data]
	}
	return f[list]
}

// follows reports whether this part of the node, if the node exists, is followed.
func (t *nodes) follows(p part) bool {
	return p.of == data || p.node.marks&alone == 0 && (t.depth == unlimited || p.node.depth() < t.depth)
}

// watched reports whether a watch would report anything: a change to a followed part of a node, or the creation of the
// root.
func (t *nodes) watched(p part) bool {
	return p.node.known && t.follows(p) || p == t.rootData()
}

func (t *nodes) rootData() part { return part{t.root, data} }

func (t *nodes) hasFailed(p part) bool {
	return p.node.marks&failed != 0 && t.errs[p.node][p.of] != nil
}

// entry returns the entry that callers see for a node.
func (t *nodes) entry(n *node, path string) Entry {
	d := n.details()
	entry := Entry{Path: path, Data: n.data, Stat: zk.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: d.pzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version,
		Cversion: d.cversion,
		Aversion: d.aversion, EphemeralOwner: d.owner, DataLength: int32(len(n.data)), NumChildren: d.numChildren,
	}}
	if n.marks&failed != 0 {
		entry.Err = t.errs[n].err()
	}
	return entry
}

// hint is what the data of a node reveals about the list of its children.
type hint int

const (
	nothingNew  hint = iota
	listUnknown      // the node is new
	listEmpty        // the node is new, and had no children
	listChanged      // it has changed since it was read
)

// got records the data of a node.
func (t *nodes) got(n *node, read []byte, stat *zk.Stat) hint {
	same := n.known && !t.hasFailed(part{n, data}) && n.czxid == stat.Czxid && n.mzxid == stat.Mzxid
	first := !n.known || n.czxid != stat.Czxid
	details := n.details()
	if first {
		details.counted(&zk.Stat{Pzxid: stat.Czxid}) // what was listed belonged to another node
	}
	leaf := first && stat.NumChildren == 0 && len(details.kids) == 0
	if leaf || !t.follows(part{n, list}) {
		details.counted(stat)
	}
	details.owner, details.aversion = stat.EphemeralOwner, stat.Aversion
	if t.noData {
		read = nil
	}
	if !same {
		t.changing(n)
		t.bytes += int64(len(read) - len(n.data))
		t.appear(n)
		n.data = slices.Clone(read) // the answer is larger than that
		n.czxid, n.mzxid, n.ctime, n.mtime, n.version = stat.Czxid, stat.Mzxid, stat.Ctime, stat.Mtime, stat.Version
		t.forgive(part{n, data})
	}
	n.detail(details)
	switch {
	case !t.follows(part{n, list}):
		return nothingNew
	case leaf:
		return listEmpty
	case first:
		return listUnknown
	case stat.Pzxid > details.pzxid:
		return listChanged
	}
	return nothingNew
}

func (t *nodes) appear(n *node) {
	if !n.known {
		n.known = true
		t.known++
	}
}

// fail records that a part cannot be read. If the data of a node is too large, its list may still be readable, so fail
// reports whether this is the first thing known about the node.
func (t *nodes) fail(p part, err error) (first bool) {
	n := p.node
	t.changing(n)
	first = n.czxid == 0 && n.marks&failed == 0
	if !t.hasFailed(p) {
		t.failed++
	}
	t.appear(n)
	n.marks |= failed
	all := t.errs[n]
	all[p.of] = err
	t.errs[n] = all
	return first
}

// forgive records that a part could be read.
func (t *nodes) forgive(p part) {
	if !t.hasFailed(p) {
		return
	}
	n := p.node
	t.changing(n)
	left := t.errs[n]
	left[p.of] = nil
	t.failed--
	if left.err() != nil {
		t.errs[n] = left
	} else {
		n.marks &^= failed
		delete(t.errs, n)
	}
}

// listed records the names of a node's children. If the node was recreated after its data was read, its deletion is
// reported before this list or, on a new connection, after it, and the data is read again.
func (t *nodes) listed(n *node, names []string, stat *zk.Stat) {
	t.forgive(part{n, list})
	details := n.details()
	details.counted(stat)
	old := details.kids
	names, kept := t.keep(n, names)
	details.kids = make([]*node, 0, len(names))
	for i, name := range names {
		for len(old) > 0 && old[0].name < name {
			t.drop(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].name == name {
			details.kids = append(details.kids, old[0])
			old = old[1:]
			continue
		}
		kid := &node{parent: n, name: strings.Clone(name)} // a clone, because the name would keep the whole list in memory
		if kept != nil {
			kid.marks = kept[i]
		}
		details.kids = append(details.kids, kid)
		t.size++
		t.bytes += int64(len(name))
	}
	for _, kid := range old {
		t.drop(kid)
	}
	n.detail(details)
}

// keep returns the names of the children that the cache keeps, sorted, and how it keeps each of them; marked is nil if
// all are kept whole.
func (t *nodes) keep(n *node, names []string) (kept []string, marked []marks) {
	slices.Sort(names)
	if t.filter == nil {
		return names, nil
	}
	prefix := strings.TrimSuffix(t.pathOf(n), "/") + "/"
	for _, name := range names {
		switch t.filter(prefix + name) {
		case Nothing:
			continue
		case Alone:
			marked = append(marked, alone)
		default:
			marked = append(marked, 0)
		}
		kept = append(kept, name)
	}
	return kept, marked
}

// gone records that a node does not exist. The node remains in its parent's list, which has changed too and is reread.
func (t *nodes) gone(n *node) {
	for _, kid := range n.children() {
		t.drop(kid)
	}
	t.going(n)
	if n.known {
		t.known--
	}
	for _, err := range t.errs[n] {
		if err != nil {
			t.failed--
		}
	}
	delete(t.errs, n)
	t.bytes -= int64(len(n.data))
	*n = node{parent: n.parent, name: n.name, parts: n.parts, marks: n.marks & alone}
}

// drop removes a node and all nodes below it from the tree.
func (t *nodes) drop(n *node) {
	t.gone(n)
	t.size--
	t.bytes -= int64(len(n.name))
}

// excess returns an error if there is too much to cache.
func (t *nodes) excess(c *config) error {
	switch {
	case t.bytes > c.bytes:
		return fmt.Errorf("%w: %d bytes below %s exceed the limit of %d: cache less, or raise WithMaxBytes",
			ErrTooMuch, t.bytes, t.path, c.bytes)
	case t.size > c.nodes:
		return fmt.Errorf("%w: %d nodes below %s exceed the limit of %d: cache less, or raise WithMaxNodes",
			ErrTooMuch, t.size, t.path, c.nodes)
	}
	return nil
}
