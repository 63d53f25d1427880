package request

import (
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// multiOp is one operation of a multi or multiRead.
type multiOp struct {
	kind    proto.Op // the code that it was sent under
	op      proto.Op // the effective operation
	path    string
	create  ensemble.Create
	data    []byte
	version int32
}

// miscast reports whether the operation has a mode with a time to live, but no time to live.
func (o multiOp) miscast() bool { return o.op == proto.OpCreateTTL && o.kind != proto.OpCreateTTL }

// decodeMulti reads operations up to the end marker. It returns false if they cannot be read, or if reads and writes
// are mixed.
//
// Source: MultiOperationRecord, Op.Create.
func decodeMulti(d *proto.Decoder) ([]multiOp, bool) {
	var ops []multiOp
	for {
		kind, done := proto.Op(d.Int32()), d.Bool()
		d.Int32() // error code, unused in a request
		if done || d.Bad {
			return ops, !d.Bad
		}
		o := multiOp{kind: kind, op: kind}
		switch kind {
		case proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
			o.create = decodeCreate(kind, d)
			o.op, o.path = createKind(kind, o.create), o.create.Path
			o.create.Op = o.op
			if o.op != proto.OpCreateTTL {
				o.create.TTL = -1
			}
		case proto.OpDelete, proto.OpCheck:
			o.path, o.version = d.Str(), d.Int32()
		case proto.OpSetData:
			o.path, o.data, o.version = d.Str(), d.Bytes(), d.Int32()
		case proto.OpGetData, proto.OpGetChildren:
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

// Paths returns the path of a request, or those of the operations of a multi. It reads from a copy of the decoder.
func Paths(op proto.Op, d proto.Decoder) (path string, paths []string) {
	switch op {
	case proto.OpMulti, proto.OpMultiRead:
		ops, _ := decodeMulti(&d)
		for _, o := range ops {
			paths = append(paths, o.path)
		}
	case proto.OpPing, proto.OpCloseSession, proto.OpAuth, proto.OpSASL, proto.OpSetWatches, proto.OpSetWatches2,
		proto.OpReconfig, proto.OpWhoAmI:
	default:
		path = d.Str()
	}
	return path, paths
}

// hasNullPath reports whether an operation has a null path, on which the real server breaks.
func hasNullPath(ops []multiOp) bool {
	return slices.ContainsFunc(ops, func(o multiOp) bool { return o.path == proto.Null })
}

func (o multiOp) reads() bool { return o.op == proto.OpGetData || o.op == proto.OpGetChildren }

// createKind returns the effective operation of a create in a multi. Its mode takes precedence over its code.
func createKind(kind proto.Op, r ensemble.Create) proto.Op {
	switch {
	case r.Mode == proto.Container:
		return proto.OpCreateContainer
	case r.Mode.TTL():
		return proto.OpCreateTTL
	case kind == proto.OpCreateTTL:
		return proto.OpCreate
	}
	return kind
}

// plain drops the code of a create whose mode does not determine the operation, like the releases that ignore the code.
func (o *multiOp) plain() {
	if o.op == proto.OpCreate2 || o.op == proto.OpCreateContainer && o.create.Mode != proto.Container {
		o.op, o.create.Op = proto.OpCreate, proto.OpCreate
	}
}

// strict checks the operations of a multi like the releases that answer create2 as such. They cannot read a mode that
// does not exist, or a mode with a time to live that has none. A null ACL makes them fail before the request has a
// zxid.
//
// Source: MultiOperationRecord.deserialize, CreateOptions.
func strict(ops []multiOp) (readable, failed bool) {
	for _, o := range ops {
		if o.kind != proto.OpCreate && o.kind != proto.OpCreate2 && o.kind != proto.OpCreateContainer {
			continue
		}
		switch {
		case !o.create.Mode.Valid():
			return false, false
		case o.create.ACL == nil:
			return false, true
		case o.miscast():
			return false, false
		}
	}
	return true, false
}

// multi applies all of its operations under one zxid, or none.
func (q *Call) multi() proto.Code {
	ops, ok := decodeMulti(q.In)
	if q.e.Traits.Create2InMulti {
		readable, failed := strict(ops)
		if failed {
			return q.breakMulti()
		}
		ok = ok && readable
	} else {
		for i := range ops {
			ops[i].plain()
		}
	}
	t := q.e.Begin(q.session, q.Client.IDs)
	if !ok || len(ops) > 0 && ops[0].reads() {
		q.e.Record(t, q.Op, "", proto.CodeMarshallingError)
		return proto.CodeMarshallingError
	}
	if hasNullPath(ops) {
		q.e.Record(t, q.Op, "", proto.CodeMarshallingError)
		return q.breakMulti()
	}
	t.KeepDecisions()
	changes := make([]tree.Change, 0, len(ops))
	for _, o := range ops {
		c, code := o.prepare(t)
		if code != proto.CodeOK {
			q.e.Record(t, q.Op, "", code)
			if code == proto.CodeMarshallingError {
				return proto.CodeMarshallingError
			}
			failMulti(q.Out, len(changes), len(ops), code)
			return proto.CodeOK
		}
		changes = append(changes, c)
	}
	for _, c := range changes {
		q.reply(q.Out, c, t.Apply(c))
	}
	endMulti(q.Out)
	q.e.Record(t, q.Op, "", proto.CodeOK)
	return proto.CodeOK
}

// breakMulti answers a multi on which the real server breaks. In 3.8 the reply has a body in spite of the error.
func (q *Call) breakMulti() proto.Code {
	if q.e.Traits.FailsWithBody {
		endMulti(q.Out)
	}
	return proto.CodeMarshallingError
}

func (o multiOp) prepare(t *ensemble.Txn) (tree.Change, proto.Code) {
	if o.miscast() { // the real server fails to cast the request
		return tree.Change{}, proto.CodeMarshallingError
	}
	switch o.op {
	case proto.OpDelete:
		return t.Delete(o.path, o.version)
	case proto.OpSetData:
		return t.SetData(o.path, o.data, o.version)
	case proto.OpCheck:
		return t.Check(o.path, o.version)
	default:
		return t.Create(o.create)
	}
}

// reply writes the result of one applied operation.
func (q *Call) reply(e *proto.Encoder, c tree.Change, n *tree.Node) {
	kind := c.Op
	if kind == proto.OpCreateContainer || kind == proto.OpCreateTTL {
		kind = proto.OpCreate2
	}
	multiHeader(e, kind, false, proto.CodeOK)
	switch kind {
	case proto.OpCreate:
		e.Str(n.Path)
	case proto.OpCreate2:
		e.Str(n.Path)
		e.Stat(n.Stat(q.e.Tree))
	case proto.OpSetData:
		e.Stat(n.Stat(q.e.Tree))
	default:
	}
}

// failMulti writes the results of a multi in which the operation at index culprit failed. The preceding operations get
// code 0, and the later ones CodeRuntimeInconsistency.
func failMulti(e *proto.Encoder, culprit, n int, code proto.Code) {
	for i := range n {
		result := proto.CodeOK
		switch {
		case i == culprit:
			result = code
		case i > culprit:
			result = proto.CodeRuntimeInconsistency
		}
		multiHeader(e, proto.OpError, false, result)
		e.Int32(int32(result))
	}
	endMulti(e)
}

func multiHeader(e *proto.Encoder, kind proto.Op, done bool, code proto.Code) {
	e.Int32(int32(kind))
	e.Bool(done)
	e.Int32(int32(code))
}

func endMulti(e *proto.Encoder) { multiHeader(e, proto.OpError, true, opErrorCode) }

const opErrorCode = proto.Code(-1)

// multiRead answers each of its reads individually.
func (q *Call) multiRead() proto.Code {
	ops, ok := decodeMulti(q.In)
	if !ok {
		return proto.CodeMarshallingError
	}
	if len(ops) > 0 && !ops[0].reads() || hasNullPath(ops) {
		endMulti(q.Out)
		return proto.CodeMarshallingError
	}
	for _, o := range ops {
		n, code := q.readable(o.path, proto.PermRead)
		switch {
		case code != proto.CodeOK:
			multiHeader(q.Out, proto.OpError, false, code)
			q.Out.Int32(int32(code))
		case o.op == proto.OpGetData:
			multiHeader(q.Out, o.op, false, proto.CodeOK)
			q.Out.Bytes(n.Data)
			q.Out.Stat(n.Stat(q.e.Tree))
		default:
			multiHeader(q.Out, o.op, false, proto.CodeOK)
			q.Out.Strs(n.Children.List())
		}
	}
	endMulti(q.Out)
	return proto.CodeOK
}
