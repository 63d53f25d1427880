package zktest

import (
	"bytes"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/request"
	"github.com/zkrecipes/zkrecipes/zktest/internal/transport"
)

// handshake opens or resumes a session. It returns false if the connection handles no further requests.
//
// Source: ZooKeeperServer.processConnectRequest, whose order of decisions it follows.
func (c *conn) handshake(frame []byte) bool {
	h, ok := request.ReadHello(frame)
	if !ok {
		c.end()
		return false
	}
	s := c.s
	req := Request{Client: c.Label, Session: h.ID, Op: OpConnect}
	act, hit := s.faults.match(req)
	if hit && !c.before(act, req) {
		return false
	}
	hold := c.during(act)
	if s.cfg.deviates(NoResumption) {
		h.ID = 0
	}
	s.lock()
	ses, ok := c.welcome(h, act, hold)
	s.unlock()
	if !ok {
		return false
	}
	if ses != nil {
		req.Session = ses.ID
	}
	c.finish(act, req)
	return ses != nil
}

// welcome answers a handshake. It returns false if the connection has ended without an answer. The caller holds
// Server.mu.
func (c *conn) welcome(h request.Hello, act Action, hold transport.Hold) (ses *ensemble.Session, ok bool) {
	if c.dead {
		return nil, false
	}
	c.showCertificate()
	if !h.Admitted(c.Front) {
		c.s.release(c, transport.Abrupt)
		return nil, false
	}
	if act.kind != actFail {
		if ses = h.Attach(c.Client); ses != nil {
			c.s.stallConn(c)
		}
	}
	c.s.state.Received++
	c.Received++
	c.Last = ensemble.LastRequest{Op: proto.OpConnect, Zxid: c.s.state.Zxid, At: time.Now()}
	answer := func() { c.sendAfter(hold, func(e *proto.Encoder) { h.Welcome(e, c.Front, ses) }) }
	switch {
	case ses == nil:
		answer()
		c.s.release(c, transport.Flush)
	case h.ID == 0 && ses.Local == nil:
		c.later(answer) // a write, from the ensemble's point of view
	default:
		answer()
	}
	return ses, true
}

// later runs do when the front is up to date. The next request is served after that.
func (c *conn) later(do func()) {
	if over := c.Front.Later(do); over != nil {
		c.behind = over
	}
}

// handle serves one request. It returns false if the connection handles no further requests.
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

// serve applies the request and queues the reply, behind hold if there is one. If fail is an error, the reply contains
// only that error.
func (c *conn) serve(xid int32, op proto.Op, d *proto.Decoder, hold transport.Hold, fail proto.Code) bool {
	s := c.s
	s.lock()
	defer s.unlock()
	if c.dead || c.Session.Closing {
		return false
	}
	s.state.Received++
	c.Received++
	s.scratch.B = s.scratch.B[:0]
	if !request.AuthReadable(op, *d) {
		s.release(c, transport.Flush)
		return false
	}
	if op == proto.OpCreateContainer && s.cfg.deviates(HangsUpOnContainers) {
		s.release(c, transport.Abrupt)
		return false
	}
	if op == proto.OpDeleteContainer && s.state.Traits.ShunsReapers {
		s.release(c, transport.Flush)
		return false
	}
	q := &request.Call{
		Client: c.Client, Op: op, In: d, Out: &s.scratch,
		Unknown: op == proto.OpMulti && s.cfg.deviates(NoMulti),
	}
	zxid, code, over := q.Serve(fail)
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
	c.Last = ensemble.LastRequest{Op: op, Xid: xid, Zxid: zxid, At: time.Now()}
	if q.Silent {
		return !c.dead
	}
	if c.Front.Lags() && (op.Writes() || op == proto.OpSync && !s.cfg.deviates(LocalSync)) {
		body := bytes.Clone(q.Out.B)
		c.later(func() {
			c.reply(hold, xid, zxid, code, body, over)
			c.Wake()
		})
	} else {
		c.reply(hold, xid, zxid, code, q.Out.B, over)
	}
	if op == proto.OpReconfig && code == proto.CodeOK {
		s.state.Adopt()
	}
	if cap(s.scratch.B) > 1<<16 {
		s.scratch.B = nil
	}
	if len(s.untold) > 0 {
		c.Wake() // the function that receives violations may wait for the client
	}
	return !over
}

// reply queues a reply, behind hold if there is one, and ends the connection after it if over is set. The caller makes
// sure that the reply is written.
func (c *conn) reply(hold transport.Hold, xid int32, zxid int64, code proto.Code, body []byte, over bool) {
	c.queue(hold, func(e *proto.Encoder) {
		e.Int32(xid)
		e.Int64(zxid)
		e.Int32(int32(code))
		e.B = append(e.B, body...)
	})
	if over {
		c.s.release(c, transport.Flush)
	}
}
