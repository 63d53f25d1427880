// Package tree holds the nodes: what a transaction changes, the order of children, quotas, containers.
package tree

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// childBuckets is the initial number of buckets in DataNode.children.
const childBuckets = 8

// Node is one znode. Cversion counts the creates under it and provides the sequence numbers. The Stat for clients has a
// different number.
type Node struct {
	Path                        string
	Parent                      *Node
	Children                    *javaset.Set // nil if it never had one
	Data                        []byte
	ACL                         []proto.ACL
	Czxid, Mzxid, Pzxid         int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	Owner                       int64
}

func (n *Node) name() string { return n.Path[strings.LastIndexByte(n.Path, '/')+1:] }

// child returns the path of a child.
func (n *Node) child(name string) string { return strings.TrimSuffix(n.Path, "/") + "/" + name }

// Stat reports cversion as creates plus deletes, as DataNode.copyStat does.
func (n *Node) Stat(t *Tree) proto.Stat {
	s := proto.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Cversion: n.Cversion*2 - int32(n.Children.Len()), Aversion: n.Aversion,
		DataLength: int32(len(n.Data)), NumChildren: int32(n.Children.Len()), Pzxid: n.Pzxid,
	}
	if t.Ephemeral(n.Owner) {
		s.EphemeralOwner = n.Owner
	}
	return s
}

// Tree holds the znodes by path. Its methods rely on the checks of a transaction.
type Tree struct {
	nodes      map[string]*Node
	containers map[*Node]struct{}  // containers and nodes with a time to live
	quotas     map[string]struct{} // paths that have one
	extended   bool                // owners can carry a time to live
}

// New returns the tree of a server that starts for the first time.
func New(extended bool) *Tree {
	t := &Tree{
		nodes: map[string]*Node{}, containers: map[*Node]struct{}{}, quotas: map[string]struct{}{},
		extended: extended,
	}
	t.nodes["/"] = &Node{Path: "/", Data: []byte{}, ACL: proto.OpenACL}
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.Add(&Node{Path: path, Data: []byte{}, ACL: proto.OpenACL})
	}
	config := t.nodes["/zookeeper/config"]
	config.Aversion = -1 // DataTree.addConfigNode sets the ACL once, as this version
	config.ACL = []proto.ACL{{Perms: proto.PermRead, Scheme: "world", ID: "anyone"}}
	return t
}

// Get returns the node, or nil. The empty path is also the root, since it is what precedes the slash of "/a".
func (t *Tree) Get(path string) *Node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// All yields the nodes in no particular order.
func (t *Tree) All() iter.Seq[*Node] { return maps.Values(t.nodes) }

// OwnedBy returns the nodes with the owner, oldest first.
func (t *Tree) OwnedBy(owner int64) []*Node {
	var list []*Node
	for n := range t.All() {
		if n.Owner == owner {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Czxid, b.Czxid), cmp.Compare(a.Path, b.Path))
	})
	return list
}

// Count returns the number of nodes.
func (t *Tree) Count() int { return len(t.nodes) }

// Add adds a node whose parent exists.
func (t *Tree) Add(n *Node) {
	n.Parent = t.Get(ParentPath(n.Path))
	if n.Parent.Children == nil {
		n.Parent.Children = javaset.New(childBuckets)
	}
	n.Parent.Children.Add(n.name())
	t.nodes[n.Path] = n
	if n.Owner == OwnerContainer || t.hasTTL(n.Owner) {
		t.containers[n] = struct{}{}
	}
	t.quotaAdded(n)
}

// remove removes a node without children.
func (t *Tree) remove(n *Node) {
	n.Parent.Children.Remove(n.name())
	delete(t.nodes, n.Path)
	delete(t.containers, n)
	t.quotaRemoved(n)
}

// ParentPath returns the path before the last slash, which is empty for children of the root.
func ParentPath(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// setData replaces the data of a node. Versions are up to the caller.
func (t *Tree) setData(n *Node, data []byte) {
	t.charge(n.Path, 0, int64(len(data)-len(n.Data)))
	n.Data = data
}

// Change is one effect of a transaction on the tree. All effects are decided before the first is applied.
type Change struct {
	Op       proto.Op // of the reply: create, create2, createContainer, createTTL, delete, setData, setACL or check
	Path     string
	Data     []byte
	ACL      []proto.ACL
	Owner    int64
	Version  int32 // the new one of what changes
	Cversion int32 // the new one of the parent
	Suffix   bool  // the path ends with a number from the parent's cversion
}

// Stamp is when a change happened.
type Stamp struct{ Zxid, Millis int64 }

// Apply makes a change that has been checked and returns its node.
func (t *Tree) Apply(c Change, at Stamp) *Node {
	n := t.Get(c.Path)
	switch c.Op {
	case proto.OpDelete:
		t.remove(n)
		n.Parent.Pzxid = max(n.Parent.Pzxid, at.Zxid)
	case proto.OpSetData:
		n.Version, n.Mzxid, n.Mtime = c.Version, at.Zxid, at.Millis
		t.setData(n, c.Data)
	case proto.OpSetACL:
		n.ACL, n.Aversion = c.ACL, c.Version
	default:
		n = &Node{
			Path: c.Path, Data: c.Data, ACL: c.ACL, Owner: c.Owner,
			Czxid: at.Zxid, Mzxid: at.Zxid, Pzxid: at.Zxid, Ctime: at.Millis, Mtime: at.Millis,
		}
		t.Add(n)
		// This comparison is where the counter of an exhausted parent sticks: it has wrapped and is no longer greater.
		if c.Cversion > n.Parent.Cversion {
			n.Parent.Cversion, n.Parent.Pzxid = c.Cversion, at.Zxid
		}
	}
	return n
}

// Clone returns a separate tree with the same nodes. Data and lists are shared, because they never change.
func (t *Tree) Clone() *Tree {
	twin := &Tree{
		nodes: make(map[string]*Node, len(t.nodes)), containers: map[*Node]struct{}{}, quotas: map[string]struct{}{},
		extended: t.extended,
	}
	for path, n := range t.nodes {
		same := *n
		twin.nodes[path] = &same
	}
	for _, n := range twin.nodes {
		if n.Parent != nil {
			n.Parent = twin.nodes[n.Parent.Path]
		}
		n.Children = n.Children.Twin()
		if n.Owner == OwnerContainer || t.hasTTL(n.Owner) {
			twin.containers[n] = struct{}{}
		}
	}
	for path := range t.quotas {
		twin.quotas[path] = struct{}{}
	}
	return twin
}

// Special reports whether no client may delete the path. Source: DataTree.isSpecialPath.
func Special(path string) bool {
	return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" || path == "/zookeeper/config"
}

// ValidPath applies the rules of PathUtils.validatePath.
func ValidPath(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	for _, r := range path {
		switch {
		case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xe000 && r <= 0xf8ff, r >= 0xfff0:
			// Java checks UTF-16 units, so characters beyond the first plane, which consist of surrogates, are rejected too.
			return false
		}
	}
	return true
}
