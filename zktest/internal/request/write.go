package request

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// write runs one change as a separate transaction and returns the node for the reply.
func (q *Call) write(path string, prepare func(*ensemble.Txn) (tree.Change, proto.Code)) (*tree.Node, proto.Code) {
	if q.In.Bad && (q.e.Traits.ReadsFirst || q.Op == proto.OpReconfig) {
		return nil, proto.CodeMarshallingError // takes no zxid
	}
	return q.e.Write(q.session, q.Client.IDs, q.Op, path, func(t *ensemble.Txn) (tree.Change, proto.Code) {
		if q.In.Bad {
			return tree.Change{}, proto.CodeMarshallingError
		}
		return prepare(t)
	})
}

func decodeCreate(op proto.Op, d *proto.Decoder) ensemble.Create {
	r := ensemble.Create{Op: op, Path: d.Str(), Data: d.Bytes(), ACL: d.ACLs(), Mode: proto.Mode(d.Int32()), TTL: -1}
	if op == proto.OpCreateTTL {
		r.TTL = d.Int64()
	}
	return r
}

func (q *Call) create() proto.Code {
	r := decodeCreate(q.Op, q.In)
	if r.Mode == proto.Container && q.Op != proto.OpCreateContainer && !q.In.Bad {
		q.e.Misused("%v of %s with the container flag creates a persistent node", q.Op, r.Path)
	}
	if r.Op == proto.OpCreateTTL && !r.Mode.TTL() && !q.In.Bad {
		q.e.Misused("createTTL of %s with mode %d: want a mode with a time to live", r.Path, r.Mode)
	}
	n, code := q.write(r.Path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Create(r) })
	if code == proto.CodeOK {
		q.Out.Str(n.Path)
		if q.Op != proto.OpCreate {
			q.Out.Stat(n.Stat(q.e.Tree))
		}
	}
	return code
}

func (q *Call) delete() proto.Code {
	path, version := q.In.Str(), q.In.Int32()
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Delete(path, version) })
	return code
}

func (q *Call) setData() proto.Code {
	path, data, version := q.In.Str(), q.In.Bytes(), q.In.Int32()
	n, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetData(path, data, version) })
	if code == proto.CodeOK {
		q.Out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

func (q *Call) setACL() proto.Code {
	path, list, version := q.In.Str(), q.In.ACLs(), q.In.Int32()
	n, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetACL(path, list, version) })
	if code == proto.CodeOK {
		q.Out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

// check outside a multi is a trap: the real server sends no answer if it succeeds, and cannot replay its log again.
func (q *Call) check() proto.Code {
	path, version := q.In.Str(), q.In.Int32()
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Check(path, version) })
	if q.Silent = code == proto.CodeOK; q.Silent {
		q.e.Misused("check of %s outside of a multi would keep a real server from starting again", path)
	}
	return code
}

// denied answers an operation that no client may use. It takes a zxid, as all writes do.
func denied(code proto.Code) handler {
	return func(q *Call) proto.Code {
		q.e.Record(q.e.Begin(q.session, q.Client.IDs), q.Op, "", code)
		return code
	}
}

func (q *Call) closeSession() proto.Code {
	q.e.EndSession(q.session)
	return proto.CodeOK
}

// reconfig changes the content of /zookeeper/config. The consequences follow after the reply: see Ensemble.Adopt.
func (q *Call) reconfig() proto.Code {
	r := ensemble.Reconfig{Joining: q.In.Str(), Leaving: q.In.Str(), Members: q.In.Str(), Version: q.In.Int64()}
	n, code := q.write(ensemble.ConfigPath, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Reconfig(r) })
	if code == proto.CodeOK {
		q.Out.Bytes(n.Data)
		q.Out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

// deleteContainer serves an operation that only the server itself should send. From 3.9.0 to 3.9.5, a client can use it
// to delete any node that is empty and not ephemeral, without any permission. Earlier releases take the whole request
// for the path. Later ones hang up without examining it.
func (q *Call) deleteContainer() proto.Code {
	if !q.e.Traits.DeletesContainers {
		return denied(proto.CodeBadArguments)(q)
	}
	path := q.In.Str()
	if path == proto.Null { // unlike delete, the real server breaks on it before it takes a zxid
		return proto.CodeMarshallingError
	}
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) {
		if code := ensemble.Deletable(path); code != proto.CodeOK {
			return tree.Change{}, code
		}
		return t.DeleteContainer(path)
	})
	return code
}
