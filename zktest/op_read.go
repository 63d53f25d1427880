package zktest

import (
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// readable finds a node that the client wants to read. The real server breaks on a null path.
func (s *Server) readable(q *call, path string, perms int32) (*tree.Node, proto.Code) {
	n := q.c.front.tree().Get(path)
	switch {
	case path == proto.Null:
		return nil, proto.CodeMarshallingError
	case n == nil:
		return nil, proto.CodeNoNode
	case !s.cfg.access.Allowed(n.ACL, perms, q.c.ids):
		return nil, proto.CodeNoAuth
	}
	return n, proto.CodeOK
}

// exists leaves a watch also where there is no node.
func (s *Server) exists(q *call) proto.Code {
	path, watch := q.in.Str(), q.in.Bool()
	switch {
	case q.in.Bad, path == proto.Null:
		return proto.CodeMarshallingError
	case strings.ContainsRune(path, 0):
		return proto.CodeBadArguments
	}
	n := q.c.front.tree().Get(path)
	if n != nil && s.cfg.traits.ExistsNeedsRead && !s.cfg.access.Allowed(n.ACL, proto.PermRead, q.c.ids) {
		return proto.CodeNoAuth
	}
	if watch {
		q.c.front.dataWatches.add(path, q.c, watchOnce)
	}
	if n == nil {
		return proto.CodeNoNode
	}
	q.out.Stat(n.Stat(s.tree))
	return proto.CodeOK
}

func (s *Server) getData(q *call) proto.Code {
	n, code := s.watchable(q, q.c.front.dataWatches)
	if code == proto.CodeOK {
		q.out.Bytes(n.Data)
		q.out.Stat(n.Stat(s.tree))
	}
	return code
}

// getChildren serves both operations of that name; the younger one adds the Stat.
func (s *Server) getChildren(q *call) proto.Code {
	n, code := s.watchable(q, q.c.front.childWatches)
	if code != proto.CodeOK {
		return code
	}
	q.out.Strs(n.Children.List())
	if q.op == proto.OpGetChildren2 {
		q.out.Stat(n.Stat(s.tree))
	}
	return proto.CodeOK
}

// watchable finds the node of a request for a path and a watch, and sets the watch if the client may read the node.
func (s *Server) watchable(q *call, watches *watchTable) (*tree.Node, proto.Code) {
	path, watch := q.in.Str(), q.in.Bool()
	if q.in.Bad {
		return nil, proto.CodeMarshallingError
	}
	n, code := s.readable(q, path, proto.PermRead)
	if code == proto.CodeOK && watch {
		watches.add(path, q.c, watchOnce)
	}
	return n, code
}

func (s *Server) getACL(q *call) proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	n, code := s.readable(q, path, proto.PermRead|proto.PermAdmin)
	if code != proto.CodeOK {
		return code
	}
	list := n.ACL
	if !s.cfg.access.Allowed(list, proto.PermAdmin, q.c.ids) {
		list = access.Masked(list)
	}
	q.out.ACLs(list)
	q.out.Stat(n.Stat(s.tree))
	return proto.CodeOK
}

// sync is answered at once, or when a lagging front has caught up. The path need not exist.
func (s *Server) sync(q *call) proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	q.out.Str(path)
	return proto.CodeOK
}

func (s *Server) getEphemerals(q *call) proto.Code {
	prefix := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	list := q.session.ephemerals.Clone().List()
	if p := strings.TrimSpace(prefix); p != "" && p != "/" && p != proto.Null {
		list = slices.DeleteFunc(list, func(path string) bool { return !strings.HasPrefix(path, prefix) })
	}
	q.out.Strs(list)
	return proto.CodeOK
}

func (s *Server) getAllChildrenNumber(q *call) proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	if _, code := s.readable(q, path, proto.PermRead); code != proto.CodeOK {
		return code
	}
	total, _ := q.c.front.tree().Sizes(path)
	total-- // the node itself
	if path == "" {
		total++ // the real server counts the names that begin with "/", the root among them
	}
	q.out.Int32(int32(total))
	return proto.CodeOK
}

func (s *Server) whoAmI(q *call) proto.Code {
	q.out.Int32(int32(len(q.c.ids)))
	for _, id := range q.c.ids {
		user := id.Name
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		q.out.Str(id.Scheme)
		q.out.Str(user)
	}
	return proto.CodeOK
}
