package zktest

import (
	"bytes"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// call is one request while it is handled.
type call struct {
	c       *conn
	session *session
	op      proto.Op
	in      *proto.Decoder
	out     *proto.Encoder // body of the reply
	silent  bool           // there is no reply
}

type handler func(s *Server, q *call) proto.Code

// handlers serve the operations. Authentication and unknown codes are treated before.
var handlers map[proto.Op]handler

func init() {
	handlers = map[proto.Op]handler{
		proto.OpCreate: (*Server).create, proto.OpCreate2: (*Server).create, proto.OpCreateContainer: (*Server).create,
		proto.OpCreateTTL: (*Server).create, proto.OpDelete: (*Server).delete, proto.OpSetData: (*Server).setData,
		proto.OpSetACL: (*Server).setACL, proto.OpMulti: (*Server).multi, proto.OpCheck: (*Server).check,
		proto.OpCloseSession: (*Server).closeSession,
		proto.OpExists:       (*Server).exists, proto.OpGetData: (*Server).getData, proto.OpGetACL: (*Server).getACL,
		proto.OpGetChildren: (*Server).getChildren, proto.OpGetChildren2: (*Server).getChildren,
		proto.OpSync: (*Server).sync, proto.OpMultiRead: (*Server).multiRead, proto.OpWhoAmI: (*Server).whoAmI,
		proto.OpGetEphemerals: (*Server).getEphemerals, proto.OpGetAllChildrenNumber: (*Server).getAllChildrenNumber,
		proto.OpSetWatches: (*Server).setWatches, proto.OpSetWatches2: (*Server).setWatches, proto.OpAddWatch: (*Server).addWatch,
		proto.OpCheckWatches: (*Server).findWatches, proto.OpRemoveWatches: (*Server).findWatches,
		// Switched off by default, and a server that stands alone could not do it.
		proto.OpReconfig:        (*Server).reconfig,
		proto.OpDeleteContainer: (*Server).deleteContainer,
		proto.OpConnect:         denied(proto.CodeMarshallingError),
		proto.OpPing:            func(*Server, *call) proto.Code { return proto.CodeOK },
	}
}

// handshake opens or resumes a session. It returns false if no further request is to be handled.
//
// Source: ZooKeeperServer.processConnectRequest, whose order of decisions this is.
func (c *conn) handshake(frame []byte) bool {
	d := &proto.Decoder{B: frame}
	d.Int32() // protocol version
	lastZxid, timeout, id, passwd := d.Int64(), d.Int32(), d.Int64(), d.Bytes()
	modern := len(d.B) > 0 // carries the read-only flag
	readOnly := modern && d.Bool()
	if d.Bad {
		c.end()
		return false
	}
	req := Request{Client: c.label, Session: id, Op: OpConnect}
	act, hit := c.s.faults.match(req)
	if hit && !c.before(act, req) {
		return false
	}
	hold := c.during(act)
	s := c.s
	if s.cfg.deviates(NoResumption) {
		id = 0
	}
	s.lock()
	if !c.admitted(lastZxid, readOnly, id) {
		s.unlock()
		return false
	}
	var ses *session
	if act.kind != actFail {
		ses = s.attach(c, id, passwd, s.clamp(timeout))
	}
	s.received++
	c.received++
	c.last = lastRequest{wordOp(proto.OpConnect), 0, s.zxid, time.Now()}
	flagged := modern || s.cfg.traits.ReadOnlyFlagEver
	answer := func() { c.sendAfter(hold, func(e *proto.Encoder) { welcome(e, ses, flagged, c.front.role) }) }
	switch {
	case ses == nil:
		answer()
		s.release(c, flush)
	case id == 0 && ses.local == nil:
		c.front.later(c, answer) // a write, as far as an ensemble is concerned
	default:
		answer()
	}
	if ses != nil {
		req.Session = ses.id
	}
	s.unlock()
	c.finish(act, req)
	return ses != nil
}

// admitted reports whether the front serves the client at all; if not, the connection ends. A read-only front serves no
// session of the majority. The caller holds Server.mu.
func (c *conn) admitted(lastZxid int64, readOnly bool, id int64) bool {
	role, ses := c.front.role, c.s.sessions[id]
	refused := role == readingOnly && (!readOnly || ses != nil && ses.local == nil)
	if role == looking || role == absent || refused || lastZxid > c.front.zxid() {
		c.s.release(c, abrupt)
	}
	return !c.dead
}

func (s *Server) clamp(ms int32) time.Duration {
	return min(max(time.Duration(ms)*time.Millisecond, s.cfg.minTimeout), s.cfg.maxTimeout)
}

// attach returns the session of a handshake, or nil if it has none. It closes an earlier connection of the session
// before it checks the password, so a wrong password ends a healthy connection.
func (s *Server) attach(c *conn, id int64, passwd []byte, timeout time.Duration) *session {
	var ses *session
	if id == 0 {
		ses = s.openSession(timeout, c)
	} else {
		ses = s.sessions[id]
		if ses != nil && ses.conn != nil {
			s.release(ses.conn, kick)
		}
		if ses == nil || !bytes.Equal(passwd, password(id)) {
			return nil
		}
		ses.timeout = timeout
		s.tracker.touch(ses)
	}
	if ses.conn != nil {
		s.violate("session %#x has two live connections", ses.id)
	}
	ses.conn, ses.client, c.session = c, c.label, ses
	s.stallConn(c)
	return ses
}

func welcome(e *proto.Encoder, ses *session, modern bool, r role) {
	e.Int32(0)
	if ses == nil {
		e.Int32(0)
		e.Int64(0)
		e.Bytes(make([]byte, 16))
	} else {
		e.Int32(int32(ses.timeout / time.Millisecond))
		e.Int64(ses.id)
		e.Bytes(password(ses.id))
	}
	if modern {
		e.Bool(r == readingOnly)
	}
}

// handle serves one request. It returns false if no further request is to be handled.
func (c *conn) handle(frame []byte) bool {
	d := &proto.Decoder{B: frame}
	xid, op := d.Int32(), proto.Op(d.Int32())
	if d.Bad {
		c.end()
		return false
	}
	act, req, hit := c.intercepted(xid, op, d)
	if !hit {
		return c.serve(xid, op, d, nil, proto.CodeOK)
	}
	if !c.before(act, req) {
		return act.kind == actIgnore
	}
	ok := c.serve(xid, op, d, c.during(act), act.code)
	c.finish(act, req)
	return ok
}

// serve applies the request and queues the reply, behind hold if there is one. If fail is an error, it answers with
// that alone.
func (c *conn) serve(xid int32, op proto.Op, d *proto.Decoder, hold <-chan struct{}, fail proto.Code) bool {
	s := c.s
	s.lock()
	defer s.unlock()
	if c.dead || c.session.closing {
		return false
	}
	s.received++
	c.received++
	q := &call{c: c, session: c.session, op: op, in: d, out: &s.scratch}
	q.out.B = q.out.B[:0]
	if !authReadable(op, *d) {
		s.release(c, flush)
		return false
	}
	if op == proto.OpCreateContainer && s.cfg.deviates(HangsUpOnContainers) {
		s.release(c, abrupt)
		return false
	}
	zxid, code, over := s.dispatch(q, fail)
	if op.Writes() && s.cfg.deviates(NoZxid) {
		zxid = 0
	}
	switch op {
	case proto.OpPing:
		xid = proto.XidPing
	case proto.OpAuth, proto.OpSASL:
		zxid = 0
	default:
	}
	c.last = lastRequest{wordOp(op), xid, zxid, time.Now()}
	if q.silent {
		return !c.dead
	}
	if c.front.lag != nil && c.front.role.serves() && (op.Writes() || op == proto.OpSync && !s.cfg.deviates(LocalSync)) {
		body := bytes.Clone(q.out.B)
		c.front.later(c, func() {
			c.reply(hold, xid, zxid, code, body, over)
			c.outbox.wake()
		})
	} else {
		c.reply(hold, xid, zxid, code, q.out.B, over)
	}
	if cap(s.scratch.B) > 1<<16 {
		s.scratch.B = nil
	}
	if len(s.untold) > 0 {
		c.outbox.wake() // the function that gets violations may wait for the client
	}
	return !over
}

// reply queues a reply, behind hold if there is one, and ends the connection after it if over. The caller sees to the
// writing.
func (c *conn) reply(hold <-chan struct{}, xid int32, zxid int64, code proto.Code, body []byte, over bool) {
	c.queue(hold, func(e *proto.Encoder) {
		e.Int32(xid)
		e.Int64(zxid)
		e.Int32(int32(code))
		e.B = append(e.B, body...)
	})
	if over {
		c.s.release(c, flush)
	}
}

// dispatch returns zxid and code of the reply, and whether the connection ends with it.
func (s *Server) dispatch(q *call, fail proto.Code) (zxid int64, code proto.Code, over bool) {
	if q.op == proto.OpAuth && fail == proto.CodeOK {
		code = s.authenticate(q)
		return 0, code, code != proto.CodeOK
	}
	if q.op == proto.OpSASL && fail == proto.CodeOK {
		code = s.sasl(q)
		return 0, code, code != proto.CodeOK
	}
	if !s.cfg.access.Authenticated(q.c.ids) {
		return 0, proto.CodeNeedsSASL, true
	}
	s.tracker.touch(q.session)
	serve, known := handlers[q.op]
	front := q.c.front
	switch {
	case fail != proto.CodeOK:
		return front.zxid(), fail, false
	case !known, q.op == proto.OpCreateContainer && s.cfg.noContainers, q.op == proto.OpCheck && s.cfg.traits.NoCheck,
		q.op == proto.OpMulti && s.cfg.deviates(NoMulti):
		return -1, proto.CodeUnimplemented, true
	case front.role == readingOnly && (q.op.Writes() || q.op == proto.OpSync || q.op == proto.OpCheck):
		if q.op != proto.OpCloseSession || q.session.local == nil {
			return front.zxid(), proto.CodeNotReadOnly, false
		}
	}
	code = serve(s, q)
	if zxid = s.zxid; !q.op.Writes() {
		zxid = front.zxid()
	}
	return zxid, code, q.op == proto.OpCloseSession
}
