package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// write runs one change as a transaction of its own and returns the node for the reply.
func (q *call) write(path string, prepare func(*ensemble.Txn) (tree.Change, proto.Code)) (*tree.Node, proto.Code) {
	if q.in.Bad && (q.e.Traits.ReadsFirst || q.op == proto.OpReconfig) {
		return nil, proto.CodeMarshallingError // and no zxid is taken
	}
	return q.e.Write(q.session, q.client.IDs, q.op, path, func(t *ensemble.Txn) (tree.Change, proto.Code) {
		if q.in.Bad {
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

func (q *call) create() proto.Code {
	r := decodeCreate(q.op, q.in)
	if r.Mode == proto.Container && q.op != proto.OpCreateContainer && !q.in.Bad {
		q.misuse("%v of %s with the container flag makes a persistent node", q.op, r.Path)
	}
	fatal := false
	n, code := q.write(r.Path, func(t *ensemble.Txn) (tree.Change, proto.Code) {
		c, code := t.Create(r)
		if fatal = code == proto.CodeOK && r.Op == proto.OpCreateTTL && !r.Mode.TTL(); fatal {
			code = proto.CodeMarshallingError
		}
		return c, code
	})
	if fatal { // the real server ends when it applies the transaction, which is in its log then
		q.misuse("createTTL of %s with mode %d ends a real server, which cannot start again", r.Path, r.Mode)
		q.silent = true
		q.client.Link.Cut()
	}
	if code == proto.CodeOK {
		q.out.Str(n.Path)
		if q.op != proto.OpCreate {
			q.out.Stat(n.Stat(q.e.Tree))
		}
	}
	return code
}

func (q *call) delete() proto.Code {
	path, version := q.in.Str(), q.in.Int32()
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Delete(path, version) })
	return code
}

func (q *call) setData() proto.Code {
	path, data, version := q.in.Str(), q.in.Bytes(), q.in.Int32()
	n, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetData(path, data, version) })
	if code == proto.CodeOK {
		q.out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

func (q *call) setACL() proto.Code {
	path, list, version := q.in.Str(), q.in.ACLs(), q.in.Int32()
	n, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetACL(path, list, version) })
	if code == proto.CodeOK {
		q.out.Stat(n.Stat(q.e.Tree))
	}
	return code
}

// check outside of a multi is a trap: the real server does not answer if all is well, and cannot replay its log again.
func (q *call) check() proto.Code {
	path, version := q.in.Str(), q.in.Int32()
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Check(path, version) })
	if q.silent = code == proto.CodeOK; q.silent {
		q.misuse("check of %s outside of a multi makes a real server unable to start again", path)
	}
	return code
}

// denied answers an operation that no client may use. It takes a zxid, as all writes do.
func denied(code proto.Code) handler {
	return func(q *call) proto.Code {
		q.e.Record(q.e.Begin(q.session, q.client.IDs), q.op, "", code)
		return code
	}
}

func (q *call) closeSession() proto.Code {
	q.e.EndSession(q.session)
	return proto.CodeOK
}
