package link

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// read handles what the server sends, in order, until the connection is closed.
func (c *Connection) read() error {
	prefix := make([]byte, wire.PrefixSize)
	for {
		size, err := readSize(c.in, prefix)
		if err != nil {
			return err
		}
		c.arriving, c.progress = size > c.in.Buffered(), 0
		xid, err := c.in.Peek(min(size, 4))
		if err != nil {
			return err
		}
		c.unasked = len(xid) == 4 && xid[0]&0x80 != 0 // or the answer to a ping
		if tooLarge := c.owner.TooLarge(size); tooLarge != nil {
			err = c.skip(size, tooLarge)
		} else {
			err = c.handle(size)
		}
		c.arriving = false
		if err != nil {
			return err
		}
		c.renewPatience()
	}
}

// connectionLoss is a code for use within clients. ZooKeeper never sends it.
const connectionLoss = -4

// handle handles a frame of size bytes: the reply to a request, or an event.
func (c *Connection) handle(size int) error {
	frame, lent, err := c.frame(size)
	if err != nil {
		return err
	}
	if lent {
		defer func() { _, _ = c.in.Discard(size) }() // it is in the buffer
	}
	h, body, err := wire.ReadHeader(frame)
	if err != nil {
		return err
	}
	now := time.Now()
	r, err := c.requestOf(&h, body, now)
	if err != nil {
		return err
	}
	said := wire.ErrorOf(h.Code)
	if errors.Is(said, zk.ErrSessionMoved) {
		// Before the caller asks again: this server no longer serves the session.
		c.Fail(said)
	}
	if h.Code == connectionLoss {
		c.Fail(errors.New("the server reported a lost connection of its own")) // another one may answer
	}
	switch {
	case r.done != nil:
		r.done(Reply{Zxid: h.Zxid, Body: body, Lent: lent, Sent: r.sent, At: now}, said)
		if errors.Is(said, zk.ErrSessionExpired) {
			c.owner.Expired(said)
		}
	case h.Xid == wire.XidEvent:
		e, err := wire.EventOf(body)
		if err != nil {
			return err
		}
		c.owner.Event(e)
	}
	return nil
}

// frame reads the given number of bytes. A short frame stays in the buffer and takes no memory of its own: it is lent
// until it is discarded.
func (c *Connection) frame(size int) (frame []byte, lent bool, err error) {
	if size <= c.in.Size() {
		frame, err = c.in.Peek(size)
		return frame, true, err
	}
	frame, err = readBody(c.in, size)
	return frame, false, err
}

// skip reads past a reply that is too large, and fails its call. The connection stays up.
func (c *Connection) skip(size int, tooLarge error) error {
	var header [wire.ReplyHeaderSize]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return err
	}
	h, _, _ := wire.ReadHeader(header[:]) // it has the required length
	r, err := c.requestOf(&h, nil, time.Now())
	if err != nil {
		return err
	}
	if r.done == nil {
		return tooLarge // it may be an event; on the next connection every watch fires
	}
	r.done(Reply{Zxid: h.Zxid, Sent: r.sent}, tooLarge)
	_, err = io.CopyN(io.Discard, c.in, int64(size-len(header)))
	return err
}

// requestOf reports to the owner that a reply arrived now, and returns the request it answers, or the zero value for an
// event. The code of the header becomes that of the whole reply.
func (c *Connection) requestOf(h *wire.Header, body []byte, now time.Time) (pending, error) {
	if h.Zxid > 0 {
		c.owner.Saw(h.Zxid)
	}
	r, err := c.take(h.Xid, h.Code)
	c.unasked = r.sent.IsZero() // an event, or a ping that was not requested
	if err != nil || c.unasked {
		return pending{}, err
	}
	h.Code = h.CodeOf(r.op, body)
	c.owner.Answered(r.op, h.Code, r.sent, now)
	return r, nil
}

// take removes the request that a reply answers from the pending ones. Replies arrive in the order of the requests. A
// server that skips one will never answer it, so the connection is of no further use: its requests get no answer, and
// are sent again if that is safe. Pings, events and credentials are separate.
//
// Source: SendThread.readResponse of ZooKeeper's Java client ("Xid out of order").
func (c *Connection) take(xid, code int32) (r pending, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case xid == wire.XidPing:
		if len(c.pings) > 0 {
			r = pending{op: wire.OpPing, sent: c.pings[0]}
			c.pings = c.pings[1:]
		}
	case xid == wire.XidEvent, xid == wire.XidAuth:
	case len(c.pending) == 0:
		return pending{}, fmt.Errorf("the server answered out of order: request %d, but no request is unanswered", xid)
	case xid != c.pending[0].xid:
		r = c.pending[0]
		return pending{},
			fmt.Errorf("the server answered out of order: request %d before %d, a %s", xid, r.xid, wire.OpName(r.op))
	default:
		r = c.pending[0]
		c.pending[0] = pending{} // otherwise the answer would stay in memory
		c.pending = c.pending[1:]
		c.unanswered -= r.size
	}
	if wire.FromTree(code) && !wire.IsRead(r.op) && r.sent.After(c.acceptedSent) {
		c.acceptedSent = r.sent
	}
	return r, nil
}

// leastProgress is how much of a frame has to arrive before it counts as a sign of life. A server that merely sends a
// byte now and then does not keep a client.
const leastProgress = 1 << 10

// Read reads for the frame decoder. Any part of a long frame that arrives shows that the server is alive.
func (c *Connection) Read(p []byte) (int, error) {
	n, err := c.conn.Read(p)
	if !c.arriving {
		return n, err
	}
	if c.progress += n; c.progress >= leastProgress {
		c.progress = 0
		c.renewPatience()
		if !c.unasked {
			c.note()
		}
	}
	return n, err
}

// renewPatience gives the server its full patience again. Events are a sign of life only until something has been
// unanswered for half of the session timeout. That leaves time to find a server that answers.
func (c *Connection) renewPatience() {
	now := time.Since(c.born)
	until, mute := now+c.patience, false
	if c.unasked {
		if asked := c.oldestAsked(); !asked.IsZero() {
			due := max(asked.Sub(c.born)+c.patience*3/4, time.Duration(c.barksAt.Load()))
			until, mute = min(until, due), due < until
		}
	}
	c.mute.Store(mute)
	c.barksAt.Store(int64(until)) // never earlier than before
}

// oldestAsked returns when the oldest unanswered request or ping was sent; zero if there is none.
func (c *Connection) oldestAsked() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		at = c.pending[0].sent
	}
	if len(c.pings) > 0 && (at.IsZero() || c.pings[0].Before(at)) {
		at = c.pings[0]
	}
	return at
}

// note records that a part of a frame has arrived. On a slow line, what the server sends after a large reply arrives
// late. That is no reason to abandon the connection: the same reply would be just as slow on the next one.
func (c *Connection) note() {
	now := time.Now()
	c.newest.Store(&now)
}

// Arrived returns when the latest part of a frame that did not arrive in one piece came in; zero if there was none. The
// time is kept after the frame is complete, because what the server answered after the frame is still in flight.
func (c *Connection) Arrived() time.Time {
	if at := c.newest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}
