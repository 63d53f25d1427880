package request

import (
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// readable returns a node that the client wants to read. The real server breaks on a null path.
func (q *Call) readable(path string, perms int32) (*tree.Node, proto.Code) {
	n := q.Client.Front.Nodes().Get(path)
	switch {
	case path == proto.Null:
		return nil, proto.CodeMarshallingError
	case n == nil:
		return nil, proto.CodeNoNode
	case !q.e.Access.Allowed(n.ACL, perms, q.Client.IDs):
		return nil, proto.CodeNoAuth
	}
	return n, proto.CodeOK
}

// exists sets a watch even if the node does not exist.
func (q *Call) exists() proto.Code {
	path, watch := q.In.Str(), q.In.Bool()
	switch {
	case q.In.Bad, path == proto.Null:
		return proto.CodeMarshallingError
	case strings.ContainsRune(path, 0):
		return proto.CodeBadArguments
	}
	n := q.Client.Front.Nodes().Get(path)
	if n != nil && q.e.Traits.ExistsNeedsRead && !q.e.Access.Allowed(n.ACL, proto.PermRead, q.Client.IDs) {
		return proto.CodeNoAuth
	}
	if watch {
		q.Client.Front.DataWatches.Add(path, q.Client, ensemble.WatchOnce)
	}
	if n == nil {
		return proto.CodeNoNode
	}
	q.Out.Stat(n.Stat(q.e.Tree))
	return proto.CodeOK
}

func (q *Call) getData() proto.Code {
	n, code := q.watchable(q.Client.Front.DataWatches)
	if code == proto.CodeOK {
		q.Out.Bytes(n.Data)
		q.Out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

// getChildren serves both operations of that name; the newer one adds the Stat.
func (q *Call) getChildren() proto.Code {
	n, code := q.watchable(q.Client.Front.ChildWatches)
	if code != proto.CodeOK {
		return code
	}
	q.Out.Strs(n.Children.List())
	if q.Op == proto.OpGetChildren2 {
		q.Out.Stat(n.Stat(q.e.Tree))
	}
	return proto.CodeOK
}

// watchable returns the node of a request that has a path and a watch, and sets the watch if the client may read the
// node.
func (q *Call) watchable(watches *ensemble.WatchTable) (*tree.Node, proto.Code) {
	path, watch := q.In.Str(), q.In.Bool()
	if q.In.Bad {
		return nil, proto.CodeMarshallingError
	}
	n, code := q.readable(path, proto.PermRead)
	if code == proto.CodeOK && watch {
		watches.Add(path, q.Client, ensemble.WatchOnce)
	}
	return n, code
}

func (q *Call) getACL() proto.Code {
	path := q.In.Str()
	if q.In.Bad {
		return proto.CodeMarshallingError
	}
	n, code := q.readable(path, proto.PermRead|proto.PermAdmin)
	if code != proto.CodeOK {
		return code
	}
	list := n.ACL
	if !q.e.Access.Allowed(list, proto.PermAdmin, q.Client.IDs) {
		list = access.Masked(list)
	}
	q.Out.ACLs(list)
	q.Out.Stat(n.Stat(q.e.Tree))
	return proto.CodeOK
}

// sync is answered at once, or when a lagging front has caught up. The path need not exist.
func (q *Call) sync() proto.Code {
	path := q.In.Str()
	if q.In.Bad {
		return proto.CodeMarshallingError
	}
	q.Out.Str(path)
	return proto.CodeOK
}

func (q *Call) getEphemerals() proto.Code {
	prefix := q.In.Str()
	if q.In.Bad {
		return proto.CodeMarshallingError
	}
	list := q.Client.Front.Ephemerals(q.session)
	if p := strings.TrimSpace(prefix); p != "" && p != "/" && p != proto.Null {
		list = slices.DeleteFunc(list, func(path string) bool { return !strings.HasPrefix(path, prefix) })
	}
	q.Out.Strs(list)
	return proto.CodeOK
}

func (q *Call) getAllChildrenNumber() proto.Code {
	path := q.In.Str()
	if q.In.Bad {
		return proto.CodeMarshallingError
	}
	if _, code := q.readable(path, proto.PermRead); code != proto.CodeOK {
		return code
	}
	total, _ := q.Client.Front.Nodes().Sizes(path)
	total-- // the node itself
	if path == "" {
		total++ // the real server counts the names that start with "/", including the root
	}
	q.Out.Int32(int32(total))
	return proto.CodeOK
}

func (q *Call) whoAmI() proto.Code {
	q.Out.Int32(int32(len(q.Client.IDs)))
	for _, id := range q.Client.IDs {
		user := id.Name
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		q.Out.Str(id.Scheme)
		q.Out.Str(user)
	}
	return proto.CodeOK
}
