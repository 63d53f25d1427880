package cache

import (
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// node is what the cache knows of one znode. There may be a million of them, so it has no map, no Stat and no path: it
// takes 96 bytes, plus its name and its data.
type node struct {
	parent  *node // nil for the root
	name    string
	data    []byte
	more    *details // nil if they are the usual ones
	czxid   int64
	mzxid   int64
	ctime   int64 // as in zk.Stat
	mtime   int64
	version int32
	parts   [2]state
	known   bool // there is such a node, and its data was read or refused
	marks   marks
}

type marks uint8

const (
	failed marks = 1 << iota // nodes.errs says why
	alone                    // what is below it is not kept
)

// details are what distinguishes a node from most nodes, which are leaves that never had a child, are not ephemeral,
// and have the ACL they were created with.
type details struct {
	// kids are the children, sorted by name. Some are known only by name, and some were deleted since the list was
	// read.
	kids  []*node
	pzxid int64 // of the latest list
	owner int64 // of an ephemeral node
	// The others are as in zk.Stat.
	cversion    int32
	numChildren int32
	aversion    int32
}

// counted sets what a Stat says about the children.
func (d *details) counted(stat *zk.Stat) {
	d.pzxid, d.cversion, d.numChildren = stat.Pzxid, stat.Cversion, stat.NumChildren
}

func (n *node) details() details {
	if n.more == nil {
		return details{pzxid: n.czxid}
	}
	return *n.more
}

// detail sets the details. The czxid must have been set before.
func (n *node) detail(d details) {
	n.more = nil
	if len(d.kids) > 0 || d.owner != 0 || d.pzxid != n.czxid || d.cversion != 0 || d.numChildren != 0 || d.aversion != 0 {
		n.more = &d
	}
}

func (n *node) children() []*node { return n.details().kids }

func (n *node) child(name string) *node {
	list := n.children()
	if i, ok := slices.BinarySearchFunc(list, name, byName); ok {
		return list[i]
	}
	return nil
}

func byName(n *node, name string) int { return strings.Compare(n.name, name) }

// tree is a root with its nodes, and the path of the root.
type tree struct {
	path string
	root *node
}

// find returns the node at path, or nil.
func (t *tree) find(path string) *node {
	rest, ok := t.below(path)
	if !ok || len(path) > 1 && path[len(path)-1] == '/' {
		return nil
	}
	n := t.root
	for n != nil && rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		n = n.child(name)
	}
	return n
}

// below returns the path relative to the root, where "" is the root itself.
func (t *tree) below(path string) (string, bool) {
	switch rest, ok := strings.CutPrefix(path, t.path); {
	case !ok:
		return "", false
	case rest == "" || t.path == "/":
		return rest, true
	default:
		return rest[1:], rest[0] == '/'
	}
}

// pathOf returns the path of a node.
func (t *tree) pathOf(n *node) string {
	if n.parent == nil {
		return t.path
	}
	size := len(t.path)
	for m := n; m.parent != nil; m = m.parent {
		size += 1 + len(m.name)
	}
	b := make([]byte, size)
	for m := n; m.parent != nil; m = m.parent {
		size -= len(m.name)
		copy(b[size:], m.name)
		size--
		b[size] = '/'
	}
	if t.path == "/" {
		return string(b[1:])
	}
	copy(b, t.path)
	return string(b)
}

// depth returns 0 for the root, and 1 more for each level below it.
func (n *node) depth() (d int) {
	for ; n.parent != nil; n = n.parent {
		d++
	}
	return d
}

// all calls f with n and all nodes below it, parents first, in the order of their names.
func (n *node) all(f func(*node)) {
	f(n)
	for _, kid := range n.children() {
		kid.all(f)
	}
}

// allParts calls f with each part of n and of all nodes below it.
func (n *node) allParts(f func(part)) {
	n.all(func(n *node) {
		f(part{n, data})
		f(part{n, list})
	})
}

// next returns the first known node after path in the order of all, or nil. There doesn't have to be a node at path.
func (t *tree) next(path string) *node {
	rest, _ := t.below(path)
	return nextKnown(t.root, rest)
}

// nextKnown returns the first known node below n that comes after the relative path.
func nextKnown(n *node, rest string) *node {
	name, deeper, _ := strings.Cut(rest, "/")
	list := n.children()
	i, ok := 0, false
	if rest != "" {
		i, ok = slices.BinarySearchFunc(list, name, byName)
	}
	for ; i < len(list); i++ {
		kid := list[i]
		if !ok && kid.known {
			return kid
		}
		if found := nextKnown(kid, deeper); found != nil {
			return found
		}
		ok, deeper = false, ""
	}
	return nil
}

// before reports whether path a comes before path b in the order of all.
func before(a, b string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] == '/' || b[i] != '/' && a[i] < b[i]
		}
	}
	return len(a) < len(b)
}
