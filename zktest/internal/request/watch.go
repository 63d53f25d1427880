package request

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// setWatches restores the watches of an earlier connection, and sends the events that the client has missed since a
// zxid. Like DataTree.setWatches it lets a client watch nodes that it may not read, and breaks when it reaches a null
// list or path.
func (q *Call) setWatches() proto.Code {
	front, since := q.Client.Front, q.In.Int64()
	nodes := front.Nodes()
	type list struct {
		paths []string
		looks bool // looks up the node, and breaks on a null path
		set   func(path string)
	}
	lists := []list{
		{q.In.Strs(), true, func(path string) {
			n := nodes.Get(path)
			q.rearm(q.Client, front.DataWatches, path, n, n != nil && n.Mzxid > since, proto.NodeDataChanged)
		}},
		{q.In.Strs(), true, func(path string) {
			if n := nodes.Get(path); n != nil {
				q.missed(q.Client, n, proto.NodeCreated)
			} else {
				front.DataWatches.Add(path, q.Client, ensemble.WatchOnce)
			}
		}},
		{q.In.Strs(), true, func(path string) {
			n := nodes.Get(path)
			q.rearm(q.Client, front.ChildWatches, path, n, n != nil && n.Pzxid > since, proto.NodeChildrenChanged)
		}},
	}
	if q.Op == proto.OpSetWatches2 {
		lists = append(lists,
			list{q.In.Strs(), false, func(path string) { q.addPersistent(path, q.Client) }},
			list{q.In.Strs(), false, func(path string) { q.addRecursive(path, q.Client) }})
	}
	if q.In.Bad {
		return proto.CodeMarshallingError
	}
	for _, l := range lists {
		if l.paths == nil {
			return proto.CodeMarshallingError
		}
		for _, path := range l.paths {
			if path == proto.Null && l.looks {
				return proto.CodeMarshallingError
			}
			l.set(path)
		}
	}
	return proto.CodeOK
}

func (q *Call) rearm(
	c *ensemble.Client, w *ensemble.WatchTable, path string, n *tree.Node, missed bool, ev proto.Event,
) {
	switch {
	case n == nil:
		q.e.Notify(c, -1, proto.NodeDeleted, path, nil)
	case missed:
		q.missed(c, n, ev)
	default:
		w.Add(path, c, ensemble.WatchOnce)
	}
}

// missed sends an event for a node that exists. Whether the client needs permission to read the node depends on the
// release.
func (q *Call) missed(c *ensemble.Client, n *tree.Node, ev proto.Event) {
	acl := n.ACL
	if !q.e.Traits.MissedNeedRead {
		acl = nil // everyone may read it
	}
	q.e.Notify(c, -1, ev, n.Path, acl)
}

func (q *Call) addPersistent(path string, c *ensemble.Client) {
	c.Front.DataWatches.Add(path, c, ensemble.WatchPersistent)
	c.Front.ChildWatches.Add(path, c, ensemble.WatchPersistent)
}

func (q *Call) addRecursive(path string, c *ensemble.Client) {
	c.Front.DataWatches.Add(path, c, ensemble.WatchRecursive)
	if !q.e.Traits.WatchesAddUp {
		c.Front.ChildWatches.Add(path, c, ensemble.WatchRecursive)
	}
}

func (q *Call) addWatch() proto.Code {
	path, mode := q.In.Str(), q.In.Int32()
	if q.In.Bad || mode < 0 || mode > 1 {
		return proto.CodeMarshallingError
	}
	if mode == 1 {
		q.addRecursive(path, q.Client)
	} else {
		q.addPersistent(path, q.Client)
	}
	q.Out.Int32(0)
	return proto.CodeOK
}

// Watcher types of checkWatches and removeWatches; the last two exist since 3.9.
const (
	watcherChildren = iota + 1
	watcherData
	watcherAny
	watcherPersistent
	watcherRecursive
)

// watchSelection returns what a watcher type selects: modes in the data table and in the child table.
func (q *Call) watchSelection(kind int32) (data, child ensemble.WatchMode, ok bool) {
	all := ensemble.WatchOnce | ensemble.WatchPersistent | ensemble.WatchRecursive
	one := all // 3.8 supports one mode per path
	if q.e.Traits.WatchesAddUp {
		one = ensemble.WatchOnce
	}
	switch kind {
	case watcherChildren:
		return 0, one, true
	case watcherData:
		return one, 0, true
	case watcherAny:
		return all, all, true
	case watcherPersistent:
		return ensemble.WatchPersistent, ensemble.WatchPersistent, q.e.Traits.WatchesAddUp
	case watcherRecursive:
		return ensemble.WatchRecursive, 0, q.e.Traits.WatchesAddUp
	}
	return 0, 0, false
}

// findWatches serves checkWatches and removeWatches.
func (q *Call) findWatches() proto.Code {
	front := q.Client.Front
	path, kind := q.In.Str(), q.In.Int32()
	data, child, ok := q.watchSelection(kind)
	if q.In.Bad || !ok {
		return proto.CodeMarshallingError
	}
	var found bool
	switch {
	case q.Op == proto.OpRemoveWatches:
		inData, inChild := front.DataWatches.Drop(path, q.Client, data), front.ChildWatches.Drop(path, q.Client, child)
		found = inData || inChild
	case !q.e.Traits.WatchesAddUp && path != "" && !strings.Contains(path, "/"):
		return proto.CodeMarshallingError // where 3.8 looks up the parent
	case !q.e.Traits.WatchesAddUp: // 3.8 accepts watches of any client
		found = data != 0 && len(front.DataWatches.Paths[path]) > 0 || child != 0 && len(front.ChildWatches.Paths[path]) > 0
	default:
		found = front.DataWatches.Mode(path, q.Client)&data != 0 || front.ChildWatches.Mode(path, q.Client)&child != 0
	}
	if !found {
		return proto.CodeNoWatcher
	}
	return proto.CodeOK
}
