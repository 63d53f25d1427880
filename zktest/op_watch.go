package zktest

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// setWatches sets the watches of an earlier connection again, and sends the events that the client has missed since a
// zxid. Like DataTree.setWatches it checks no access list, and breaks at a null list or path when it gets there.
func (s *Server) setWatches(q *call) proto.Code {
	front, since := q.c.front, q.in.Int64()
	nodes := front.tree()
	type list struct {
		paths []string
		looks bool // for the node, and breaks at a null path
		set   func(path string)
	}
	lists := []list{
		{q.in.Strs(), true, func(path string) {
			n := nodes.Get(path)
			s.rearm(q.c, front.dataWatches, path, n, n != nil && n.Mzxid > since, proto.NodeDataChanged)
		}},
		{q.in.Strs(), true, func(path string) {
			if nodes.Get(path) != nil {
				s.notify(q.c, -1, proto.NodeCreated, path, nil)
			} else {
				front.dataWatches.add(path, q.c, watchOnce)
			}
		}},
		{q.in.Strs(), true, func(path string) {
			n := nodes.Get(path)
			s.rearm(q.c, front.childWatches, path, n, n != nil && n.Pzxid > since, proto.NodeChildrenChanged)
		}},
	}
	if q.op == proto.OpSetWatches2 {
		lists = append(lists,
			list{q.in.Strs(), false, func(path string) { s.addPersistent(path, q.c) }},
			list{q.in.Strs(), false, func(path string) { s.addRecursive(path, q.c) }})
	}
	if q.in.Bad {
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

func (s *Server) rearm(c *conn, w *watchTable, path string, n *tree.Node, missed bool, ev proto.Event) {
	switch {
	case n == nil:
		s.notify(c, -1, proto.NodeDeleted, path, nil)
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
	if !s.cfg.traits.WatchesAddUp {
		c.front.childWatches.add(path, c, watchRecursive)
	}
}

func (s *Server) addWatch(q *call) proto.Code {
	path, mode := q.in.Str(), q.in.Int32()
	if q.in.Bad || mode < 0 || mode > 1 {
		return proto.CodeMarshallingError
	}
	if mode == 1 {
		s.addRecursive(path, q.c)
	} else {
		s.addPersistent(path, q.c)
	}
	q.out.Int32(0)
	return proto.CodeOK
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
	if s.cfg.traits.WatchesAddUp {
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
		return watchPersistent, watchPersistent, s.cfg.traits.WatchesAddUp
	case watcherRecursive:
		return watchRecursive, 0, s.cfg.traits.WatchesAddUp
	}
	return 0, 0, false
}

// findWatches serves checkWatches and removeWatches.
func (s *Server) findWatches(q *call) proto.Code {
	front := q.c.front
	path, kind := q.in.Str(), q.in.Int32()
	data, child, ok := s.watchSelection(kind)
	if q.in.Bad || !ok {
		return proto.CodeMarshallingError
	}
	var found bool
	switch {
	case q.op == proto.OpRemoveWatches:
		inData, inChild := front.dataWatches.drop(path, q.c, data), front.childWatches.drop(path, q.c, child)
		found = inData || inChild
	case !s.cfg.traits.WatchesAddUp && path != "" && !strings.Contains(path, "/"):
		return proto.CodeMarshallingError // where 3.8 looks for the parent
	case !s.cfg.traits.WatchesAddUp: // which looks for watches of any client
		found = data != 0 && len(front.dataWatches.paths[path]) > 0 || child != 0 && len(front.childWatches.paths[path]) > 0
	default:
		found = front.dataWatches.mode(path, q.c)&data != 0 || front.childWatches.mode(path, q.c)&child != 0
	}
	if !found {
		return proto.CodeNoWatcher
	}
	return proto.CodeOK
}
