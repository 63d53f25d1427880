package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// call is one request while it is handled.
type call struct {
	client  *ensemble.Client
	op      proto.Op
	in      *proto.Decoder
	out     *proto.Encoder // body of the reply
	unknown bool           // the server does not know the operation
	misuse  func(format string, args ...any)

	silent  bool // there is no reply
	e       *ensemble.Ensemble
	session *ensemble.Session
}

type handler func(q *call) proto.Code

// handlers serve the operations. Authentication and unknown codes are treated before.
var handlers map[proto.Op]handler

func init() {
	handlers = map[proto.Op]handler{
		proto.OpCreate: (*call).create, proto.OpCreate2: (*call).create, proto.OpCreateContainer: (*call).create,
		proto.OpCreateTTL: (*call).create, proto.OpDelete: (*call).delete, proto.OpSetData: (*call).setData,
		proto.OpSetACL: (*call).setACL, proto.OpMulti: (*call).multi, proto.OpCheck: (*call).check,
		proto.OpCloseSession: (*call).closeSession,
		proto.OpExists:       (*call).exists, proto.OpGetData: (*call).getData, proto.OpGetACL: (*call).getACL,
		proto.OpGetChildren: (*call).getChildren, proto.OpGetChildren2: (*call).getChildren,
		proto.OpSync: (*call).sync, proto.OpMultiRead: (*call).multiRead, proto.OpWhoAmI: (*call).whoAmI,
		proto.OpGetEphemerals: (*call).getEphemerals, proto.OpGetAllChildrenNumber: (*call).getAllChildrenNumber,
		proto.OpSetWatches: (*call).setWatches, proto.OpSetWatches2: (*call).setWatches, proto.OpAddWatch: (*call).addWatch,
		proto.OpCheckWatches: (*call).findWatches, proto.OpRemoveWatches: (*call).findWatches,
		// Switched off by default, and a server that stands alone could not do it.
		proto.OpReconfig:        (*call).reconfig,
		proto.OpDeleteContainer: (*call).deleteContainer,
		proto.OpConnect:         denied(proto.CodeMarshallingError),
		proto.OpPing:            func(*call) proto.Code { return proto.CodeOK },
	}
}

// serve answers the request, with fail alone if that is an error. It returns zxid and code of the reply, and whether the
// connection ends with it.
func (q *call) serve(fail proto.Code) (zxid int64, code proto.Code, over bool) {
	q.e, q.session = q.client.Front.Ensemble, q.client.Session
	switch {
	case fail != proto.CodeOK:
	case q.op == proto.OpAuth:
		code = q.authenticate()
		return 0, code, code != proto.CodeOK
	case q.op == proto.OpSASL:
		code = q.sasl()
		return 0, code, code != proto.CodeOK
	}
	if !q.e.Access.Authenticated(q.client.IDs) {
		return 0, proto.CodeNeedsSASL, true
	}
	q.e.Tracker.Touch(q.session)
	handle, known := handlers[q.op]
	front := q.client.Front
	switch {
	case fail != proto.CodeOK:
		return front.LastZxid(), fail, false
	case !known, q.unknown, q.op == proto.OpCreateContainer && q.e.NoContainers, q.op == proto.OpCheck && q.e.Traits.NoCheck:
		return -1, proto.CodeUnimplemented, true
	case front.Role == ensemble.ReadingOnly && (q.op.Writes() || q.op == proto.OpSync || q.op == proto.OpCheck):
		if q.op != proto.OpCloseSession || q.session.Local == nil {
			return front.LastZxid(), proto.CodeNotReadOnly, false
		}
	}
	code = handle(q)
	if zxid = q.e.Zxid; !q.op.Writes() {
		zxid = front.LastZxid()
	}
	return zxid, code, q.op == proto.OpCloseSession
}
