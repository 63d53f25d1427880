package zktest

import (
	"cmp"
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// watchMode is a set of ways in which a connection watches a path.
type watchMode uint8

const (
	watchOnce watchMode = 1 << iota
	watchPersistent
	watchRecursive
)

// watcher is one connection's interest in one path.
type watcher struct {
	c    *conn
	mode watchMode
}

// watchTable is one of the two tables of a server: data watches (exists and getData) and child watches. The watchers
// of a path are sorted by connection, so that events go out in the same order in every run.
//
// Source: WatchManager.
type watchTable struct {
	paths     map[string][]watcher
	conns     map[*conn]map[string]struct{}
	recursive int
	stack     bool // 3.9 and later keep several modes per path; 3.8 the last one set
}

func newWatchTable(stack bool) *watchTable {
	return &watchTable{paths: map[string][]watcher{}, conns: map[*conn]map[string]struct{}{}, stack: stack}
}

func find(list []watcher, c *conn) (int, bool) {
	return slices.BinarySearchFunc(list, c, func(w watcher, c *conn) int { return cmp.Compare(w.c.id, c.id) })
}

func (w *watchTable) add(path string, c *conn, mode watchMode) {
	list := w.paths[path]
	i, found := find(list, c)
	if !found {
		list = slices.Insert(list, i, watcher{c: c})
		w.paths[path] = list
		if w.conns[c] == nil {
			w.conns[c] = map[string]struct{}{}
		}
		w.conns[c][path] = struct{}{}
	}
	before := list[i].mode
	if w.stack {
		mode |= before
	}
	list[i].mode = mode
	w.recursive += int(mode&watchRecursive) - int(before&watchRecursive)
}

// mode returns how c watches the path; 0 if it does not.
func (w *watchTable) mode(path string, c *conn) watchMode {
	list := w.paths[path]
	if i, found := find(list, c); found {
		return list[i].mode
	}
	return 0
}

// drop removes modes from c's watch on the path, and returns whether the watch had one of them.
func (w *watchTable) drop(path string, c *conn, modes watchMode) bool {
	list := w.paths[path]
	i, found := find(list, c)
	if !found || list[i].mode&modes == 0 {
		return false
	}
	w.recursive -= int(list[i].mode & modes & watchRecursive)
	list[i].mode &^= modes
	if list[i].mode != 0 {
		return true
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(w.paths, path)
	} else {
		w.paths[path] = list
	}
	delete(w.conns[c], path)
	if len(w.conns[c]) == 0 {
		delete(w.conns, c)
	}
	return true
}

// dropConn removes all watches of a connection.
func (w *watchTable) dropConn(c *conn) {
	for path := range w.conns[c] {
		w.drop(path, c, ^watchMode(0))
	}
}

// trigger returns the connections that get an event on the path, sorted, and removes one-time watches.
func (w *watchTable) trigger(path string, ev proto.Event) []*conn {
	var told []*conn
	for _, x := range slices.Clone(w.paths[path]) {
		if ev == proto.NodeChildrenChanged && x.mode == watchRecursive {
			continue // a recursive watch sees the child itself
		}
		told = append(told, x.c)
		w.drop(path, x.c, watchOnce)
	}
	if w.recursive == 0 || ev == proto.NodeChildrenChanged {
		return told
	}
	for path != "/" && path != "" {
		if path = tree.ParentPath(path); path == "" {
			path = "/"
		}
		for _, x := range w.paths[path] {
			if x.mode&watchRecursive != 0 {
				told = append(told, x.c)
			}
		}
	}
	slices.SortFunc(told, byID)
	return slices.Compact(told)
}

func byID(a, b *conn) int { return cmp.Compare(a.id, b.id) }

func (w *watchTable) count() (total int) {
	for _, paths := range w.conns {
		total += len(paths)
	}
	return total
}

// fire tells the watchers of the front's clients of a change to a node.
func (f *Front) fire(c tree.Change, n *tree.Node, zxid int64) {
	switch c.Op {
	case proto.OpDelete:
		f.fireDelete(zxid, n)
	case proto.OpSetData:
		f.fireData(zxid, n, proto.NodeDataChanged)
	case proto.OpSetACL:
		return
	default:
		f.fireData(zxid, n, proto.NodeCreated)
	}
	if c.Op != proto.OpSetData {
		for _, c := range f.childWatches.trigger(n.Parent.Path, proto.NodeChildrenChanged) {
			f.s.notify(c, zxid, proto.NodeChildrenChanged, n.Parent.Path, n.Parent.ACL)
		}
	}
}

func (f *Front) fireData(zxid int64, n *tree.Node, ev proto.Event) {
	for _, c := range f.dataWatches.trigger(n.Path, ev) {
		f.s.notify(c, zxid, ev, n.Path, n.ACL)
	}
}

// fireDelete serves both tables. A client that watches in both gets one event.
func (f *Front) fireDelete(zxid int64, n *tree.Node) {
	told := f.dataWatches.trigger(n.Path, proto.NodeDeleted)
	for _, c := range told {
		f.s.notify(c, zxid, proto.NodeDeleted, n.Path, n.ACL)
	}
	for _, c := range f.childWatches.trigger(n.Path, proto.NodeDeleted) {
		if _, both := slices.BinarySearchFunc(told, c, byID); !both {
			f.s.notify(c, zxid, proto.NodeDeleted, n.Path, n.ACL)
		}
	}
}

// notify queues an event. Whether the client must be allowed to read the node depends on the release.
func (s *Server) notify(c *conn, zxid int64, ev proto.Event, path string, acl []proto.ACL) {
	if s.cfg.traits.EventsNeedRead && !s.cfg.access.Allowed(acl, proto.PermRead, c.ids) {
		return
	}
	if !s.cfg.traits.EventZxid {
		zxid = -1
	}
	c.sendEvent(func(e *proto.Encoder) {
		e.Int32(proto.XidNotification)
		e.Int64(zxid)
		e.Int32(0)
		e.Int32(int32(ev))
		e.Int32(3) // SyncConnected
		e.Str(path)
	})
}
