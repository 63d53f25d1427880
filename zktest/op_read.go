package zktest

import (
	"slices"
	"strings"
)

// readable finds a node that the client wants to read. The real server breaks on a null path.
func (s *Server) readable(q *call, path string, perms int32) (*node, Code) {
	n := q.c.front.tree().get(path)
	switch {
	case path == nullString:
		return nil, CodeMarshallingError
	case n == nil:
		return nil, CodeNoNode
	case !s.cfg.allowed(n.acl, perms, q.c.ids):
		return nil, CodeNoAuth
	}
	return n, CodeOK
}

// exists leaves a watch also where there is no node.
func (s *Server) exists(q *call) Code {
	path, watch := q.in.Str(), q.in.Bool()
	switch {
	case q.in.Bad, path == nullString:
		return CodeMarshallingError
	case strings.ContainsRune(path, 0):
		return CodeBadArguments
	}
	n := q.c.front.tree().get(path)
	if n != nil && s.cfg.traits.existsNeedsRead && !s.cfg.allowed(n.acl, permRead, q.c.ids) {
		return CodeNoAuth
	}
	if watch {
		q.c.front.dataWatches.add(path, q.c, watchOnce)
	}
	if n == nil {
		return CodeNoNode
	}
	q.out.stat(n.stat(s.tree))
	return CodeOK
}

func (s *Server) getData(q *call) Code {
	n, code := s.watchable(q, q.c.front.dataWatches)
	if code == CodeOK {
		q.out.Bytes(n.data)
		q.out.stat(n.stat(s.tree))
	}
	return code
}

// getChildren serves both operations of that name; the younger one adds the Stat.
func (s *Server) getChildren(q *call) Code {
	n, code := s.watchable(q, q.c.front.childWatches)
	if code != CodeOK {
		return code
	}
	q.out.Strs(n.children.List())
	if q.op == OpGetChildren2 {
		q.out.stat(n.stat(s.tree))
	}
	return CodeOK
}

// watchable finds the node of a request for a path and a watch, and sets the watch if the client may read the node.
func (s *Server) watchable(q *call, watches *watchTable) (*node, Code) {
	path, watch := q.in.Str(), q.in.Bool()
	if q.in.Bad {
		return nil, CodeMarshallingError
	}
	n, code := s.readable(q, path, permRead)
	if code == CodeOK && watch {
		watches.add(path, q.c, watchOnce)
	}
	return n, code
}

func (s *Server) getACL(q *call) Code {
	path := q.in.Str()
	if q.in.Bad {
		return CodeMarshallingError
	}
	n, code := s.readable(q, path, permRead|permAdmin)
	if code != CodeOK {
		return code
	}
	list := n.acl
	if !s.cfg.allowed(list, permAdmin, q.c.ids) {
		list = masked(list)
	}
	q.out.acls(list)
	q.out.stat(n.stat(s.tree))
	return CodeOK
}

// sync is answered at once, or when a lagging front has caught up. The path need not exist.
func (s *Server) sync(q *call) Code {
	path := q.in.Str()
	if q.in.Bad {
		return CodeMarshallingError
	}
	q.out.Str(path)
	return CodeOK
}

func (s *Server) getEphemerals(q *call) Code {
	prefix := q.in.Str()
	if q.in.Bad {
		return CodeMarshallingError
	}
	list := q.session.ephemerals.Clone().List()
	if p := strings.TrimSpace(prefix); p != "" && p != "/" && p != nullString {
		list = slices.DeleteFunc(list, func(path string) bool { return !strings.HasPrefix(path, prefix) })
	}
	q.out.Strs(list)
	return CodeOK
}

func (s *Server) getAllChildrenNumber(q *call) Code {
	path := q.in.Str()
	if q.in.Bad {
		return CodeMarshallingError
	}
	if _, code := s.readable(q, path, permRead); code != CodeOK {
		return code
	}
	total, _ := q.c.front.tree().sizes(path)
	total-- // the node itself
	if path == "" {
		total++ // the real server counts the names that begin with "/", the root among them
	}
	q.out.Int32(int32(total))
	return CodeOK
}

func (s *Server) whoAmI(q *call) Code {
	q.out.Int32(int32(len(q.c.ids)))
	for _, id := range q.c.ids {
		user := id.id
		if id.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		q.out.Str(id.scheme)
		q.out.Str(user)
	}
	return CodeOK
}
