package zktest

import "slices"

// multiOp is one operation of a multi or multiRead.
type multiOp struct {
	kind    Op // the code that it came under
	op      Op // what it is
	path    string
	create  createSpec
	data    []byte
	version int32
}

// miscast is a mode with a time to live, but no time to live.
func (o multiOp) miscast() bool { return o.op == OpCreateTTL && o.kind != OpCreateTTL }

// decodeMulti reads operations up to the end marker; false means that they cannot be read or that reads and writes
// are mixed.
//
// Source: MultiOperationRecord, Op.Create.
func decodeMulti(d *decoder) ([]multiOp, bool) {
	var ops []multiOp
	for {
		kind, done := Op(d.Int32()), d.Bool()
		d.Int32() // error code, of no use in a request
		if done || d.Bad {
			return ops, !d.Bad
		}
		o := multiOp{kind: kind, op: kind}
		switch kind {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			o.create = decodeCreate(kind, d)
			o.op, o.path = createKind(kind, o.create), o.create.path
			o.create.op = o.op
			if o.op != OpCreateTTL {
				o.create.ttl = -1
			}
		case OpDelete, OpCheck:
			o.path, o.version = d.Str(), d.Int32()
		case OpSetData:
			o.path, o.data, o.version = d.Str(), d.Bytes(), d.Int32()
		case OpGetData, OpGetChildren:
			o.path = d.Str()
			d.Bool() // a watch, which is not set
		default:
			d.Bad = true
		}
		if ops = append(ops, o); ops[0].reads() != o.reads() {
			d.Bad = true
		}
	}
}

// hasNullPath says whether the real server breaks on the operations.
func hasNullPath(ops []multiOp) bool {
	return slices.ContainsFunc(ops, func(o multiOp) bool { return o.path == nullString })
}

func (o multiOp) reads() bool { return o.op == OpGetData || o.op == OpGetChildren }

// createKind returns the operation that a create in a multi stands for. Its mode decides before its code.
func createKind(kind Op, r createSpec) Op {
	switch {
	case r.mode == Container:
		return OpCreateContainer
	case r.mode.ttl():
		return OpCreateTTL
	case kind == OpCreateTTL:
		return OpCreate
	}
	return kind
}

// plain takes the code away from a create whose mode decides nothing, as the releases did that do not look at it.
func (o *multiOp) plain() {
	if o.op == OpCreate2 || o.op == OpCreateContainer && o.create.mode != Container {
		o.op, o.create.op = OpCreate, OpCreate
	}
}

// strict tells what the releases that answer create2 by itself make of the operations of a multi. They cannot read a mode
// that does not exist, or one with a time to live that has none. At a null ACL they fail before the request has a zxid.
//
// Source: MultiOperationRecord.deserialize, CreateOptions.
func strict(ops []multiOp) (readable, failed bool) {
	for _, o := range ops {
		if o.kind != OpCreate && o.kind != OpCreate2 && o.kind != OpCreateContainer {
			continue
		}
		switch {
		case !o.create.mode.valid():
			return false, false
		case o.create.acl == nil:
			return false, true
		case o.miscast():
			return false, false
		}
	}
	return true, false
}

// multi applies all of its operations under one zxid, or none.
func (s *Server) multi(q *call) Code {
	ops, ok := decodeMulti(q.in)
	if s.cfg.traits.create2InMulti {
		readable, failed := strict(ops)
		if failed {
			return s.breakMulti(q)
		}
		ok = ok && readable
	} else {
		for i := range ops {
			ops[i].plain()
		}
	}
	t := s.begin(q.session, q.c.ids)
	if !ok || len(ops) > 0 && ops[0].reads() {
		s.record(t, q.op, "", CodeMarshallingError)
		return CodeMarshallingError
	}
	if hasNullPath(ops) {
		s.record(t, q.op, "", CodeMarshallingError)
		return s.breakMulti(q)
	}
	t.shadow = map[string]view{}
	changes := make([]change, 0, len(ops))
	for _, o := range ops {
		c, code := t.prepare(o)
		if code != CodeOK {
			s.record(t, q.op, "", code)
			if code == CodeMarshallingError {
				return CodeMarshallingError
			}
			failMulti(q.out, len(changes), len(ops), code)
			return CodeOK
		}
		changes = append(changes, c)
	}
	for _, c := range changes {
		s.reply(q.out, c, t.apply(c))
	}
	endMulti(q.out)
	s.record(t, q.op, "", CodeOK)
	return CodeOK
}

// breakMulti answers a multi on which the real server breaks. In 3.8 the reply has a body in spite of the error.
func (s *Server) breakMulti(q *call) Code {
	if s.cfg.traits.failsWithBody {
		endMulti(q.out)
	}
	return CodeMarshallingError
}

func (t *txn) prepare(o multiOp) (change, Code) {
	if o.miscast() { // the real server fails to cast the request
		return change{}, CodeMarshallingError
	}
	switch o.op {
	case OpDelete:
		return t.delete(o.path, o.version)
	case OpSetData:
		return t.setData(o.path, o.data, o.version)
	case OpCheck:
		return t.check(o.path, o.version)
	default:
		return t.create(o.create)
	}
}

// reply writes the result of one operation that was applied.
func (s *Server) reply(e *encoder, c change, n *node) {
	kind := c.op
	if kind == OpCreateContainer || kind == OpCreateTTL {
		kind = OpCreate2
	}
	multiHeader(e, kind, false, CodeOK)
	switch kind {
	case OpCreate:
		e.Str(n.path)
	case OpCreate2:
		e.Str(n.path)
		e.stat(n.stat(s.tree))
	case OpSetData:
		e.stat(n.stat(s.tree))
	default:
	}
}

// failMulti writes the results of a multi in which the operation at index culprit failed. The operations before it get
// code 0, and the later ones CodeRuntimeInconsistency.
func failMulti(e *encoder, culprit, n int, code Code) {
	for i := range n {
		result := CodeOK
		switch {
		case i == culprit:
			result = code
		case i > culprit:
			result = CodeRuntimeInconsistency
		}
		multiHeader(e, opError, false, result)
		e.Int32(int32(result))
	}
	endMulti(e)
}

func multiHeader(e *encoder, kind Op, done bool, code Code) {
	e.Int32(int32(kind))
	e.Bool(done)
	e.Int32(int32(code))
}

func endMulti(e *encoder) { multiHeader(e, opError, true, opErrorCode) }

const opErrorCode = Code(-1)

// multiRead answers each of its reads for itself.
func (s *Server) multiRead(q *call) Code {
	ops, ok := decodeMulti(q.in)
	if !ok {
		return CodeMarshallingError
	}
	if len(ops) > 0 && !ops[0].reads() || hasNullPath(ops) {
		endMulti(q.out)
		return CodeMarshallingError
	}
	for _, o := range ops {
		n, code := s.readable(q, o.path, permRead)
		switch {
		case code != CodeOK:
			multiHeader(q.out, opError, false, code)
			q.out.Int32(int32(code))
		case o.op == OpGetData:
			multiHeader(q.out, o.op, false, CodeOK)
			q.out.Bytes(n.data)
			q.out.stat(n.stat(s.tree))
		default:
			multiHeader(q.out, o.op, false, CodeOK)
			q.out.Strs(n.children.List())
		}
	}
	endMulti(q.out)
	return CodeOK
}
