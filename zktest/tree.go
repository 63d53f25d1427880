package zktest

import (
	"math"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// The owner field of a node also says that it is a container or has a time to live. Source: EphemeralType.
const (
	ownerContainer = math.MinInt64
	ownerTTLMask   = -1 << 56
	maxTTL         = 1<<40 - 1
)

// childBuckets is what DataNode.children begins with.
const childBuckets = 8

// node is one znode. cversion counts the creates under it and gives the sequence numbers. The Stat for clients has
// another number.
type node struct {
	path                        string
	parent                      *node
	children                    *javaset.Set // nil if it never had one
	data                        []byte
	acl                         []proto.ACL
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64
	version, cversion, aversion int32
	owner                       int64
}

func (n *node) name() string { return n.path[strings.LastIndexByte(n.path, '/')+1:] }

// child returns the path of a child.
func (n *node) child(name string) string { return strings.TrimSuffix(n.path, "/") + "/" + name }

// stat reports cversion as creates plus deletes, as DataNode.copyStat does.
func (n *node) stat(t *tree) proto.Stat {
	s := proto.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.cversion*2 - int32(n.children.Len()), Aversion: n.aversion,
		DataLength: int32(len(n.data)), NumChildren: int32(n.children.Len()), Pzxid: n.pzxid,
	}
	if t.ephemeral(n.owner) {
		s.EphemeralOwner = n.owner
	}
	return s
}

// tree holds the znodes by path. Its methods rely on the checks of a txn.
type tree struct {
	nodes      map[string]*node
	containers map[*node]struct{}  // containers and nodes with a time to live
	quotas     map[string]struct{} // paths that have one
	extended   bool                // owners can carry a time to live
}

func newTree(extended bool) *tree {
	t := &tree{nodes: map[string]*node{}, containers: map[*node]struct{}{}, quotas: map[string]struct{}{}, extended: extended}
	t.nodes["/"] = &node{path: "/", data: []byte{}, acl: proto.OpenACL}
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.add(&node{path: path, data: []byte{}, acl: proto.OpenACL})
	}
	config := t.nodes["/zookeeper/config"]
	config.aversion = -1 // DataTree.addConfigNode sets the list once, as this version
	config.acl = []proto.ACL{{Perms: proto.PermRead, Scheme: "world", ID: "anyone"}}
	return t
}

// get returns the node, or nil. The empty path is the root as well, since it is what precedes the slash of "/a".
func (t *tree) get(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// ephemeral says whether the owner field names a session.
func (t *tree) ephemeral(owner int64) bool {
	return owner != 0 && owner != ownerContainer && !t.ttl(owner)
}

func (t *tree) ttl(owner int64) bool { return t.extended && owner&ownerTTLMask == ownerTTLMask }

func (t *tree) add(n *node) {
	n.parent = t.get(parentPath(n.path))
	if n.parent.children == nil {
		n.parent.children = javaset.New(childBuckets)
	}
	n.parent.children.Add(n.name())
	t.nodes[n.path] = n
	if n.owner == ownerContainer || t.ttl(n.owner) {
		t.containers[n] = struct{}{}
	}
	t.quotaAdded(n)
}

// remove removes a node without children.
func (t *tree) remove(n *node) {
	n.parent.children.Remove(n.name())
	delete(t.nodes, n.path)
	delete(t.containers, n)
	t.quotaRemoved(n)
}

// parentPath returns the path before the last slash; for children of the root that is the empty one.
func parentPath(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// setData replaces the data of a node; versions are the caller's.
func (t *tree) setData(n *node, data []byte) {
	t.charge(n.path, 0, int64(len(data)-len(n.data)))
	n.data = data
}

// stamp is when a change happened.
type stamp struct{ zxid, ms int64 }

// apply makes a change that has been checked and returns its node.
func (t *tree) apply(c change, at stamp) *node {
	n := t.get(c.path)
	switch c.op {
	case proto.OpDelete:
		t.remove(n)
		n.parent.pzxid = max(n.parent.pzxid, at.zxid)
	case proto.OpSetData:
		n.version, n.mzxid, n.mtime = c.version, at.zxid, at.ms
		t.setData(n, c.data)
	case proto.OpSetACL:
		n.acl, n.aversion = c.acl, c.version
	default:
		n = &node{
			path: c.path, data: c.data, acl: c.acl, owner: c.owner,
			czxid: at.zxid, mzxid: at.zxid, pzxid: at.zxid, ctime: at.ms, mtime: at.ms,
		}
		t.add(n)
		// The comparison is where the counter of an exhausted parent sticks: it has wrapped and is no longer greater.
		if c.cversion > n.parent.cversion {
			n.parent.cversion, n.parent.pzxid = c.cversion, at.zxid
		}
	}
	return n
}

// special says whether no client may delete the path. Source: DataTree.isSpecialPath.
func special(path string) bool {
	return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" || path == "/zookeeper/config"
}

// validPath applies the rules of PathUtils.validatePath.
func validPath(path string) bool {
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
			// Java checks UTF-16 units, so what lies beyond the first plane, made of surrogates, is refused too.
			return false
		}
	}
	return true
}
