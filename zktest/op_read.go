package zktest

import (
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// readable finds a node that the client wants to read. The real server breaks on a null path.
func (q *call) readable(path string, perms int32) (*tree.Node, proto.Code) {
	n := q.client.Front.Nodes().Get(path)
	switch {
	case path == proto.Null:
		return nil, proto.CodeMarshallingError
	case n == nil:
		return nil, proto.CodeNoNode
	case !q.e.Access.Allowed(n.ACL, perms, q.client.IDs):
		return nil, proto.CodeNoAuth
	}
	return n, proto.CodeOK
}

// exists leaves a watch also where there is no node.
func (q *call) exists() proto.Code {
	path, watch := q.in.Str(), q.in.Bool()
	switch {
	case q.in.Bad, path == proto.Null:
		return proto.CodeMarshallingError
	case strings.ContainsRune(path, 0):
		return proto.CodeBadArguments
	}
	n := q.client.Front.Nodes().Get(path)
	if n != nil && q.e.Traits.ExistsNeedsRead && !q.e.Access.Allowed(n.ACL, proto.PermRead, q.client.IDs) {
		return proto.CodeNoAuth
	}
	if watch {
		q.client.Front.DataWatches.Add(path, q.client, ensemble.WatchOnce)
	}
	if n == nil {
		return proto.CodeNoNode
	}
	q.out.Stat(n.Stat(q.e.Tree))
	return proto.CodeOK
}

func (q *call) getData() proto.Code {
	n, code := q.watchable(q.client.Front.DataWatches)
	if code == proto.CodeOK {
		q.out.Bytes(n.Data)
		q.out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

// getChildren serves both operations of that name; the younger one adds the Stat.
func (q *call) getChildren() proto.Code {
	n, code := q.watchable(q.client.Front.ChildWatches)
	if code != proto.CodeOK {
		return code
	}
	q.out.Strs(n.Children.List())
	if q.op == proto.OpGetChildren2 {
		q.out.Stat(n.Stat(q.e.Tree))
	}
	return proto.CodeOK
}

// watchable finds the node of a request for a path and a watch, and sets the watch if the client may read the node.
func (q *call) watchable(watches *ensemble.WatchTable) (*tree.Node, proto.Code) {
	path, watch := q.in.Str(), q.in.Bool()
	if q.in.Bad {
		return nil, proto.CodeMarshallingError
	}
	n, code := q.readable(path, proto.PermRead)
	if code == proto.CodeOK && watch {
		watches.Add(path, q.client, ensemble.WatchOnce)
	}
	return n, code
}

func (q *call) getACL() proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	n, code := q.readable(path, proto.PermRead|proto.PermAdmin)
	if code != proto.CodeOK {
		return code
	}
	list := n.ACL
	if !q.e.Access.Allowed(list, proto.PermAdmin, q.client.IDs) {
		list = access.Masked(list)
	}
	q.out.ACLs(list)
	q.out.Stat(n.Stat(q.e.Tree))
	return proto.CodeOK
}

// sync is answered at once, or when a lagging front has caught up. The path need not exist.
func (q *call) sync() proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	q.out.Str(path)
	return proto.CodeOK
}

func (q *call) getEphemerals() proto.Code {
	prefix := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	list := q.session.Ephemerals.Clone().List()
	if p := strings.TrimSpace(prefix); p != "" && p != "/" && p != proto.Null {
		list = slices.DeleteFunc(list, func(path string) bool { return !strings.HasPrefix(path, prefix) })
	}
	q.out.Strs(list)
	return proto.CodeOK
}

func (q *call) getAllChildrenNumber() proto.Code {
	path := q.in.Str()
	if q.in.Bad {
		return proto.CodeMarshallingError
	}
	if _, code := q.readable(path, proto.PermRead); code != proto.CodeOK {
		return code
	}
	total, _ := q.client.Front.Nodes().Sizes(path)
	total-- // the node itself
	if path == "" {
		total++ // the real server counts the names that begin with "/", the root among them
	}
	q.out.Int32(int32(total))
	return proto.CodeOK
}

func (q *call) whoAmI() proto.Code {
	q.out.Int32(int32(len(q.client.IDs)))
	for _, id := range q.client.IDs {
		user := id.Name
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		q.out.Str(id.Scheme)
		q.out.Str(user)
	}
	return proto.CodeOK
}
