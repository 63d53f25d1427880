package zktest

import (
	"cmp"
	"slices"
	"strings"
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
func (w *watchTable) trigger(path string, ev Event) []*conn {
	var told []*conn
	for _, x := range slices.Clone(w.paths[path]) {
		if ev == NodeChildrenChanged && x.mode == watchRecursive {
			continue // a recursive watch sees the child itself
		}
		told = append(told, x.c)
		w.drop(path, x.c, watchOnce)
	}
	if w.recursive == 0 || ev == NodeChildrenChanged {
		return told
	}
	for path != "/" && path != "" {
		if path = parentPath(path); path == "" {
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
func (f *Front) fire(c change, n *node, zxid int64) {
	switch c.op {
	case OpDelete:
		f.fireDelete(zxid, n)
	case OpSetData:
		f.fireData(zxid, n, NodeDataChanged)
	case OpSetACL:
		return
	default:
		f.fireData(zxid, n, NodeCreated)
	}
	if c.op != OpSetData {
		for _, c := range f.childWatches.trigger(n.parent.path, NodeChildrenChanged) {
			f.s.notify(c, zxid, NodeChildrenChanged, n.parent.path, n.parent.acl)
		}
	}
}

func (f *Front) fireData(zxid int64, n *node, ev Event) {
	for _, c := range f.dataWatches.trigger(n.path, ev) {
		f.s.notify(c, zxid, ev, n.path, n.acl)
	}
}

// fireDelete serves both tables. A client that watches in both gets one event.
func (f *Front) fireDelete(zxid int64, n *node) {
	told := f.dataWatches.trigger(n.path, NodeDeleted)
	for _, c := range told {
		f.s.notify(c, zxid, NodeDeleted, n.path, n.acl)
	}
	for _, c := range f.childWatches.trigger(n.path, NodeDeleted) {
		if _, both := slices.BinarySearchFunc(told, c, byID); !both {
			f.s.notify(c, zxid, NodeDeleted, n.path, n.acl)
		}
	}
}

// notify queues an event. Whether the client must be allowed to read the node depends on the release.
func (s *Server) notify(c *conn, zxid int64, ev Event, path string, acl []ACL) {
	if s.cfg.traits.eventsNeedRead && !s.cfg.allowed(acl, permRead, c.ids) {
		return
	}
	if !s.cfg.traits.eventZxid {
		zxid = -1
	}
	c.sendEvent(func(e *encoder) {
		e.int32(xidNotification)
		e.int64(zxid)
		e.int32(0)
		e.int32(int32(ev))
		e.int32(3) // SyncConnected
		e.str(path)
	})
}

// setWatches sets the watches of an earlier connection again, and sends the events that the client has missed since a
// zxid. Like DataTree.setWatches it checks no access list, and breaks at a null list or path when it gets there.
func (s *Server) setWatches(q *call) Code {
	front, since := q.c.front, q.in.int64()
	tree := front.tree()
	type list struct {
		paths []string
		looks bool // for the node, and breaks at a null path
		set   func(path string)
	}
	lists := []list{
		{q.in.strs(), true, func(path string) {
			n := tree.get(path)
			s.rearm(q.c, front.dataWatches, path, n, n != nil && n.mzxid > since, NodeDataChanged)
		}},
		{q.in.strs(), true, func(path string) {
			if tree.get(path) != nil {
				s.notify(q.c, -1, NodeCreated, path, nil)
			} else {
				front.dataWatches.add(path, q.c, watchOnce)
			}
		}},
		{q.in.strs(), true, func(path string) {
			n := tree.get(path)
			s.rearm(q.c, front.childWatches, path, n, n != nil && n.pzxid > since, NodeChildrenChanged)
		}},
	}
	if q.op == OpSetWatches2 {
		lists = append(lists,
			list{q.in.strs(), false, func(path string) { s.addPersistent(path, q.c) }},
			list{q.in.strs(), false, func(path string) { s.addRecursive(path, q.c) }})
	}
	if q.in.bad {
		return CodeMarshallingError
	}
	for _, l := range lists {
		if l.paths == nil {
			return CodeMarshallingError
		}
		for _, path := range l.paths {
			if path == nullString && l.looks {
				return CodeMarshallingError
			}
			l.set(path)
		}
	}
	return CodeOK
}

func (s *Server) rearm(c *conn, w *watchTable, path string, n *node, missed bool, ev Event) {
	switch {
	case n == nil:
		s.notify(c, -1, NodeDeleted, path, nil)
	case missed:
		s.notify(c, -1, ev, path, nil)
	default:
		w.add(path, c, watchOnce)
	}
}

func (s *Server) addPersistent(path string, c *conn) {
	c.front.dataWatches.add(path, c, watchPersistent)
	c.front.childWatches.add(path, c, watchPersistent)
}

func (s *Server) addRecursive(path string, c *conn) {
	c.front.dataWatches.add(path, c, watchRecursive)
	if !s.cfg.traits.watchesAddUp {
		c.front.childWatches.add(path, c, watchRecursive)
	}
}

func (s *Server) addWatch(q *call) Code {
	path, mode := q.in.str(), q.in.int32()
	if q.in.bad || mode < 0 || mode > 1 {
		return CodeMarshallingError
	}
	if mode == 1 {
		s.addRecursive(path, q.c)
	} else {
		s.addPersistent(path, q.c)
	}
	q.out.int32(0)
	return CodeOK
}

// Watcher types of checkWatches and removeWatches; the last two since 3.9.
const (
	watcherChildren = iota + 1
	watcherData
	watcherAny
	watcherPersistent
	watcherRecursive
)

// watchSelection says what a watcher type stands for: modes in the data table and in the child table.
func (s *Server) watchSelection(kind int32) (data, child watchMode, ok bool) {
	all := watchOnce | watchPersistent | watchRecursive
	one := all // 3.8 knows one mode per path
	if s.cfg.traits.watchesAddUp {
		one = watchOnce
	}
	switch kind {
	case watcherChildren:
		return 0, one, true
	case watcherData:
		return one, 0, true
	case watcherAny:
		return all, all, true
	case watcherPersistent:
		return watchPersistent, watchPersistent, s.cfg.traits.watchesAddUp
	case watcherRecursive:
		return watchRecursive, 0, s.cfg.traits.watchesAddUp
	}
	return 0, 0, false
}

// findWatches serves checkWatches and removeWatches.
func (s *Server) findWatches(q *call) Code {
	front := q.c.front
	path, kind := q.in.str(), q.in.int32()
	data, child, ok := s.watchSelection(kind)
	if q.in.bad || !ok {
		return CodeMarshallingError
	}
	var found bool
	switch {
	case q.op == OpRemoveWatches:
		inData, inChild := front.dataWatches.drop(path, q.c, data), front.childWatches.drop(path, q.c, child)
		found = inData || inChild
	case !s.cfg.traits.watchesAddUp && path != "" && !strings.Contains(path, "/"):
		return CodeMarshallingError // where 3.8 looks for the parent
	case !s.cfg.traits.watchesAddUp: // which looks for watches of any client
		found = data != 0 && len(front.dataWatches.paths[path]) > 0 || child != 0 && len(front.childWatches.paths[path]) > 0
	default:
		found = front.dataWatches.mode(path, q.c)&data != 0 || front.childWatches.mode(path, q.c)&child != 0
	}
	if !found {
		return CodeNoWatcher
	}
	return CodeOK
}

// under says whether path is root or below it.
func under(path, root string) bool {
	return root == "/" || path == root || strings.HasPrefix(path, root+"/")
}
