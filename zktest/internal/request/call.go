// Package request implements what each request of a client does to an ensemble, and its reply, with one file for each
// kind. It reads and writes the bodies; frames and headers are up to its caller.
package request

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// Call is one request while it is handled.
type Call struct {
	Client  *ensemble.Client
	Op      proto.Op
	In      *proto.Decoder
	Out     *proto.Encoder // body of the reply
	Unknown bool           // the server does not support the operation

	Silent  bool // there is no reply
	e       *ensemble.Ensemble
	session *ensemble.Session
}

type handler func(q *Call) proto.Code

// handlers serve the operations. Authentication and unknown codes are handled earlier.
var handlers map[proto.Op]handler

func init() {
	handlers = map[proto.Op]handler{
		proto.OpCreate: (*Call).create, proto.OpCreate2: (*Call).create, proto.OpCreateContainer: (*Call).create,
		proto.OpCreateTTL: (*Call).create, proto.OpDelete: (*Call).delete, proto.OpSetData: (*Call).setData,
		proto.OpSetACL: (*Call).setACL, proto.OpMulti: (*Call).multi, proto.OpCheck: (*Call).check,
		proto.OpCloseSession: (*Call).closeSession,
		proto.OpExists:       (*Call).exists, proto.OpGetData: (*Call).getData, proto.OpGetACL: (*Call).getACL,
		proto.OpGetChildren: (*Call).getChildren, proto.OpGetChildren2: (*Call).getChildren,
		proto.OpSync: (*Call).sync, proto.OpMultiRead: (*Call).multiRead, proto.OpWhoAmI: (*Call).whoAmI,
		proto.OpGetEphemerals: (*Call).getEphemerals, proto.OpGetAllChildrenNumber: (*Call).getAllChildrenNumber,
		proto.OpSetWatches: (*Call).setWatches, proto.OpSetWatches2: (*Call).setWatches, proto.OpAddWatch: (*Call).addWatch,
		proto.OpCheckWatches: (*Call).findWatches, proto.OpRemoveWatches: (*Call).findWatches,
		// Disabled by default, and not supported by a standalone server.
		proto.OpReconfig:        (*Call).reconfig,
		proto.OpDeleteContainer: (*Call).deleteContainer,
		proto.OpConnect:         denied(proto.CodeMarshallingError),
		proto.OpPing:            func(*Call) proto.Code { return proto.CodeOK },
	}
}

// Serve answers the request, or only returns fail if that is an error. It returns zxid and code of the reply, and
// whether the connection ends with it.
func (q *Call) Serve(fail proto.Code) (zxid int64, code proto.Code, over bool) {
	q.e, q.session = q.Client.Front.Ensemble, q.Client.Session
	front := q.Client.Front
	switch {
	case fail != proto.CodeOK:
		q.e.Tracker.Touch(q.session)
		return front.LastZxid(), fail, false
	case q.Op == proto.OpAuth:
		code = q.authenticate()
		return 0, code, code != proto.CodeOK
	case q.Op == proto.OpSASL:
		code = q.sasl()
		return 0, code, code != proto.CodeOK
	}
	if !q.e.Access.Authenticated(q.Client.IDs) {
		return 0, proto.CodeNeedsSASL, true
	}
	q.e.Tracker.Touch(q.session)
	handle, known := handlers[q.Op]
	switch {
	case !known, q.Unknown, q.Op == proto.OpCreateContainer && q.e.NoContainers,
		q.Op == proto.OpCheck && q.e.Traits.NoCheck:
		return -1, proto.CodeUnimplemented, true
	case front.Role == ensemble.ReadingOnly && (q.Op.Writes() || q.Op == proto.OpSync || q.Op == proto.OpCheck):
		if q.Op != proto.OpCloseSession || q.session.Local == nil {
			return front.LastZxid(), proto.CodeNotReadOnly, false
		}
	}
	code = handle(q)
	if zxid = q.e.Zxid; !q.Op.Writes() {
		zxid = front.LastZxid()
	}
	return zxid, code, q.Op == proto.OpCloseSession
}
