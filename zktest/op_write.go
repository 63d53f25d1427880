package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// write runs one change as a transaction of its own and returns the node for the reply.
func (s *Server) write(q *call, path string, prepare func(*txn) (tree.Change, proto.Code)) (n *tree.Node, code proto.Code) {
	if q.in.Bad && (s.cfg.traits.ReadsFirst || q.op == proto.OpReconfig) {
		return nil, proto.CodeMarshallingError // and no zxid is taken
	}
	t := s.begin(q.session, q.c.ids)
	var c tree.Change
	if code = proto.CodeMarshallingError; !q.in.Bad {
		c, code = prepare(t)
	}
	if code == proto.CodeOK {
		n = t.apply(c)
	}
	s.record(t, q.op, path, code)
	return n, code
}

func decodeCreate(op proto.Op, d *proto.Decoder) createSpec {
	r := createSpec{op: op, path: d.Str(), data: d.Bytes(), acl: d.ACLs(), mode: proto.Mode(d.Int32()), ttl: -1}
	if op == proto.OpCreateTTL {
		r.ttl = d.Int64()
	}
	return r
}

func (s *Server) create(q *call) proto.Code {
	r := decodeCreate(q.op, q.in)
	if r.mode == proto.Container && q.op != proto.OpCreateContainer && !q.in.Bad {
		s.misuse("%v of %s with the container flag makes a persistent node", q.op, r.path)
	}
	fatal := false
	n, code := s.write(q, r.path, func(t *txn) (tree.Change, proto.Code) {
		c, code := t.create(r)
		if fatal = code == proto.CodeOK && r.op == proto.OpCreateTTL && !r.mode.TTL(); fatal {
			code = proto.CodeMarshallingError
		}
		return c, code
	})
	if fatal { // the real server ends when it applies the transaction, which is in its log then
		s.misuse("createTTL of %s with mode %d ends a real server, which cannot start again", r.path, r.mode)
		q.silent = true
		s.release(q.c, abrupt)
	}
	if code == proto.CodeOK {
		q.out.Str(n.Path)
		if q.op != proto.OpCreate {
			q.out.Stat(n.Stat(s.tree))
		}
	}
	return code
}

func (s *Server) delete(q *call) proto.Code {
	path, version := q.in.Str(), q.in.Int32()
	_, code := s.write(q, path, func(t *txn) (tree.Change, proto.Code) { return t.delete(path, version) })
	return code
}

func (s *Server) setData(q *call) proto.Code {
	path, data, version := q.in.Str(), q.in.Bytes(), q.in.Int32()
	n, code := s.write(q, path, func(t *txn) (tree.Change, proto.Code) { return t.setData(path, data, version) })
	if code == proto.CodeOK {
		q.out.Stat(n.Stat(s.tree))
	}
	return code
}

func (s *Server) setACL(q *call) proto.Code {
	path, list, version := q.in.Str(), q.in.ACLs(), q.in.Int32()
	n, code := s.write(q, path, func(t *txn) (tree.Change, proto.Code) { return t.setACL(path, list, version) })
	if code == proto.CodeOK {
		q.out.Stat(n.Stat(s.tree))
	}
	return code
}

// check outside of a multi is a trap: the real server does not answer if all is well, and cannot replay its log again.
func (s *Server) check(q *call) proto.Code {
	path, version := q.in.Str(), q.in.Int32()
	_, code := s.write(q, path, func(t *txn) (tree.Change, proto.Code) { return t.check(path, version) })
	if q.silent = code == proto.CodeOK; q.silent {
		s.misuse("check of %s outside of a multi makes a real server unable to start again", path)
	}
	return code
}

// denied answers an operation that no client may use. It takes a zxid, as all writes do.
func denied(code proto.Code) handler {
	return func(s *Server, q *call) proto.Code {
		s.record(s.begin(q.session, q.c.ids), q.op, "", code)
		return code
	}
}

func (s *Server) closeSession(q *call) proto.Code {
	s.endSession(q.session)
	return proto.CodeOK
}
