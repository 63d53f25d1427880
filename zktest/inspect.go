package zktest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// Node is a znode as stored in the server.
type Node struct {
	Path      string
	Data      []byte
	Stat      Stat
	ACL       []ACL
	Container bool          // not part of a Stat
	TTL       time.Duration // 0 for none
	Sequence  int32         // number that the next sequential child gets
}

func (s *Server) describe(n *tree.Node) Node {
	d := Node{
		Path: n.Path, Data: slices.Clone(n.Data), Stat: Stat(n.Stat(s.state.Tree)),
		Container: n.Owner == tree.OwnerContainer, TTL: s.state.Tree.Lifetime(n), Sequence: n.Cversion,
	}
	for _, a := range n.ACL {
		d.ACL = append(d.ACL, ACL(a))
	}
	return d
}

// node returns the node at a path, or nil. The empty path is none. The caller holds mu.
func (s *Server) node(path string) *tree.Node {
	if path == "" {
		return nil
	}
	return s.state.Tree.Get(path)
}

// Node returns a node, and reports whether it exists.
func (s *Server) Node(path string) (Node, bool) {
	s.lock()
	defer s.unlock()
	if n := s.node(path); n != nil {
		return s.describe(n), true
	}
	return Node{}, false
}

// Exists reports whether there is a node at the path.
func (s *Server) Exists(path string) bool {
	s.lock()
	defer s.unlock()
	return s.node(path) != nil
}

// Children returns the sorted names of a node's children, or none if the node does not exist.
func (s *Server) Children(path string) []string {
	s.lock()
	defer s.unlock()
	n := s.node(path)
	if n == nil {
		return nil
	}
	list := n.Children.List()
	slices.Sort(list)
	return list
}

// Tree returns the node at a path and all nodes below it, sorted by path. It omits ZooKeeper's own nodes, which are
// /zookeeper and below, unless path is one of them.
func (s *Server) Tree(path string) []Node {
	s.lock()
	defer s.unlock()
	if s.node(path) == nil {
		return nil
	}
	var list []Node
	for n := range s.state.Tree.All() {
		if under(n.Path, path) && (!under(n.Path, "/zookeeper") || under(path, "/zookeeper")) {
			list = append(list, s.describe(n))
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// SessionInfo is a session as known to the server.
type SessionInfo struct {
	ID         int64
	Client     string // label of the last connection
	Timeout    time.Duration
	Connected  bool
	Expires    time.Time // when it ends if the client stays silent
	Ephemerals []string  // paths, sorted
}

// Sessions returns the live sessions, oldest first.
func (s *Server) Sessions() []SessionInfo {
	s.lock()
	defer s.unlock()
	list := make([]SessionInfo, 0, len(s.state.Sessions))
	for _, ses := range s.state.Sessions {
		list = append(list, SessionInfo{
			ID: ses.ID, Client: ses.Label, Timeout: ses.Timeout, Connected: ses.Client != nil,
			Expires:    s.state.Tracker.End(ses.Bucket),
			Ephemerals: ses.Paths(),
		})
	}
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// SessionOf returns the session of the client with the label: the one that it is connected to, or else the latest one
// that it had. If there is none, SessionOf returns 0.
func (s *Server) SessionOf(label string) int64 {
	var id int64
	for _, ses := range s.Sessions() {
		if ses.Client == label {
			if ses.Connected {
				return ses.ID
			}
			id = ses.ID
		}
	}
	return id
}

// Ephemerals returns the paths of a session's nodes, sorted.
func (s *Server) Ephemerals(session int64) []string {
	s.lock()
	defer s.unlock()
	if ses := s.state.Sessions[session]; ses != nil {
		return ses.Paths()
	}
	return nil
}

// Watches counts the watches of all connections, and the distinct paths they are on. Data and child watches count
// separately.
func (s *Server) Watches() (total, paths int) {
	s.lock()
	defer s.unlock()
	distinct := map[string]struct{}{}
	for _, w := range s.watchTables() {
		total += w.Count()
		for path := range w.Paths {
			distinct[path] = struct{}{}
		}
	}
	return total, len(distinct)
}

// watchTables returns the tables of all fronts.
func (s *Server) watchTables() []*ensemble.WatchTable {
	var list []*ensemble.WatchTable
	for _, f := range s.state.Fronts {
		list = append(list, f.DataWatches, f.ChildWatches)
	}
	return list
}

// Watchers returns the sessions that watch a path, sorted and without duplicates. Recursive watches of nodes above the
// path do not count.
func (s *Server) Watchers(path string) []int64 {
	s.lock()
	defer s.unlock()
	var list []int64
	for _, w := range s.watchTables() {
		for _, x := range w.Paths[path] {
			list = append(list, x.Client.SessionID())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.lock()
	defer s.unlock()
	n := 0
	for c := range s.conns {
		if !c.dead {
			n++
		}
	}
	return n
}

// History returns the transactions, oldest first; see [WithHistory].
func (s *Server) History() []Txn {
	s.lock()
	defer s.unlock()
	return s.history.list()
}

// Zxid returns the zxid of the last transaction.
func (s *Server) Zxid() int64 {
	s.lock()
	defer s.unlock()
	return s.state.Zxid
}

// Violations returns the violations found so far, up to the first 1,000; see [OnViolation].
func (s *Server) Violations() []error {
	s.lock()
	defer s.unlock()
	return slices.Clone(s.violations)
}

// under reports whether path is root or below it.
func under(path, root string) bool {
	return root == "/" || path == root || strings.HasPrefix(path, root+"/")
}
