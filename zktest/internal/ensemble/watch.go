package ensemble

import (
	"cmp"
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// WatchMode is a set of modes in which a connection watches a path.
type WatchMode uint8

// The modes.
const (
	WatchOnce WatchMode = 1 << iota
	WatchPersistent
	WatchRecursive
)

// watcher is one client's interest in one path.
type watcher struct {
	Client *Client
	Mode   WatchMode
}

// WatchTable is one of the two tables of a server: data watches (exists and getData) and child watches. The watchers of
// a path are sorted by client, so that events are sent in the same order in every run.
//
// Source: WatchManager.
type WatchTable struct {
	Paths     map[string][]watcher
	Clients   map[*Client]map[string]struct{}
	recursive int
	stack     bool // 3.9 and later keep several modes per path; 3.8 only the last one set
}

func newWatchTable(stack bool) *WatchTable {
	return &WatchTable{Paths: map[string][]watcher{}, Clients: map[*Client]map[string]struct{}{}, stack: stack}
}

func find(list []watcher, c *Client) (int, bool) {
	return slices.BinarySearchFunc(list, c, func(w watcher, c *Client) int { return cmp.Compare(w.Client.ID, c.ID) })
}

// Add adds a watch on a path for a client.
func (w *WatchTable) Add(path string, c *Client, mode WatchMode) {
	list := w.Paths[path]
	i, found := find(list, c)
	if !found {
		list = slices.Insert(list, i, watcher{Client: c})
		w.Paths[path] = list
		if w.Clients[c] == nil {
			w.Clients[c] = map[string]struct{}{}
		}
		w.Clients[c][path] = struct{}{}
	}
	before := list[i].Mode
	if w.stack {
		mode |= before
	}
	list[i].Mode = mode
	w.recursive += int(mode&WatchRecursive) - int(before&WatchRecursive)
}

// Mode returns the modes in which c watches the path, or 0 if it does not.
func (w *WatchTable) Mode(path string, c *Client) WatchMode {
	list := w.Paths[path]
	if i, found := find(list, c); found {
		return list[i].Mode
	}
	return 0
}

// Drop removes modes from c's watch on the path, and reports whether the watch had any of them.
func (w *WatchTable) Drop(path string, c *Client, modes WatchMode) bool {
	list := w.Paths[path]
	i, found := find(list, c)
	if !found || list[i].Mode&modes == 0 {
		return false
	}
	w.recursive -= int(list[i].Mode & modes & WatchRecursive)
	list[i].Mode &^= modes
	if list[i].Mode != 0 {
		return true
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(w.Paths, path)
	} else {
		w.Paths[path] = list
	}
	delete(w.Clients[c], path)
	if len(w.Clients[c]) == 0 {
		delete(w.Clients, c)
	}
	return true
}

// dropClient removes all watches of a client.
func (w *WatchTable) dropClient(c *Client) {
	for path := range w.Clients[c] {
		w.Drop(path, c, ^WatchMode(0))
	}
}

// trigger returns the clients that get an event on the path, sorted, and removes one-time watches.
func (w *WatchTable) trigger(path string, ev proto.Event) []*Client {
	var told []*Client
	for _, x := range slices.Clone(w.Paths[path]) {
		if ev == proto.NodeChildrenChanged && x.Mode == WatchRecursive {
			continue // a recursive watch sees the child itself
		}
		told = append(told, x.Client)
		w.Drop(path, x.Client, WatchOnce)
	}
	if w.recursive == 0 || ev == proto.NodeChildrenChanged {
		return told
	}
	for path != "/" && path != "" {
		if path = tree.ParentPath(path); path == "" {
			path = "/"
		}
		for _, x := range w.Paths[path] {
			if x.Mode&WatchRecursive != 0 {
				told = append(told, x.Client)
			}
		}
	}
	slices.SortFunc(told, ByID)
	return slices.Compact(told)
}

// ByID orders clients by age.
func ByID(a, b *Client) int { return cmp.Compare(a.ID, b.ID) }

// Count returns the number of watches.
func (w *WatchTable) Count() (total int) {
	for _, paths := range w.Clients {
		total += len(paths)
	}
	return total
}

// fire notifies the watchers among the front's clients of a change to a node.
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
		for _, c := range f.ChildWatches.trigger(n.Parent.Path, proto.NodeChildrenChanged) {
			f.Ensemble.Notify(c, zxid, proto.NodeChildrenChanged, n.Parent.Path, n.Parent.ACL)
		}
	}
}

func (f *Front) fireData(zxid int64, n *tree.Node, ev proto.Event) {
	for _, c := range f.DataWatches.trigger(n.Path, ev) {
		f.Ensemble.Notify(c, zxid, ev, n.Path, n.ACL)
	}
}

// fireDelete serves both tables. A client that watches in both gets one event.
func (f *Front) fireDelete(zxid int64, n *tree.Node) {
	told := f.DataWatches.trigger(n.Path, proto.NodeDeleted)
	for _, c := range told {
		f.Ensemble.Notify(c, zxid, proto.NodeDeleted, n.Path, n.ACL)
	}
	for _, c := range f.ChildWatches.trigger(n.Path, proto.NodeDeleted) {
		if _, both := slices.BinarySearchFunc(told, c, ByID); !both {
			f.Ensemble.Notify(c, zxid, proto.NodeDeleted, n.Path, n.ACL)
		}
	}
}

// Notify queues an event. Whether the client needs permission to read the node depends on the release.
func (e *Ensemble) Notify(c *Client, zxid int64, ev proto.Event, path string, acl []proto.ACL) {
	if e.Traits.EventsNeedRead && !e.Access.Allowed(acl, proto.PermRead, c.IDs) {
		return
	}
	if !e.Traits.EventZxid {
		zxid = -1
	}
	c.Link.Event(zxid, ev, path)
}
