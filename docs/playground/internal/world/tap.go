package world

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// tap is a connection that records the requests and answers passing through it, unchanged.
type tap struct {
	net.Conn
	lane    *lane
	out, in frames
	pending map[int32]int // the numbers of requests, by xid
	closed  bool          // by either side
}

// tapped returns a dial function whose connections are tapped.
func (l *lane) tapped(dial conn.DialFunc) conn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &tap{Conn: c, lane: l, pending: map[int32]int{}}, nil
	}
}

// Write records requests before they are sent.
func (t *tap) Write(b []byte) (int, error) {
	t.lane.mu.Lock()
	for frame := range t.out.add(b) {
		t.asks(frame)
	}
	t.lane.mu.Unlock()
	return t.Conn.Write(b)
}

// Read records what was received.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.lane.mu.Lock()
	defer t.lane.mu.Unlock()
	for frame := range t.in.add(b[:n]) {
		t.answers(frame)
	}
	if c := t.lane.curator; c != nil && n > 0 {
		c.hears(t.lane.now())
	}
	if err != nil {
		t.over()
		if c := t.lane.curator; c != nil && !t.closed {
			c.hangsUp(t.lane.now())
		}
		t.closed = true
	}
	return n, err
}

// Close is called by the client.
func (t *tap) Close() error {
	t.lane.mu.Lock()
	t.over()
	t.closed = true
	t.lane.mu.Unlock()
	return t.Conn.Close()
}

// asks records a request, except a ping: all pings share one number, so an answer could not be matched. A request on a
// connection that has ended stays unanswered.
func (t *tap) asks(frame []byte) {
	if t.closed {
		return
	}
	request := Request{Op: "connect", Sent: t.lane.now(), Done: Open}
	xid := int32(0)
	if t.out.count > 1 && len(frame) >= 8 {
		var op int32
		xid, op = int32(binary.BigEndian.Uint32(frame)), int32(binary.BigEndian.Uint32(frame[4:]))
		request.Op = wire.OpName(op)
		switch op {
		case wire.OpPing:
			return
		case wire.OpClose:
			request.Changing, t.lane.closing = true, true
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpDelete, wire.OpMulti:
			request.Changing = true
		}
	}
	t.pending[xid] = t.lane.dropped + len(t.lane.requests)
	t.lane.requests = append(t.lane.requests, request)
	t.lane.version++
}

// answers records an answer or an event.
func (t *tap) answers(frame []byte) {
	if t.in.count == 1 {
		granted, err := wire.ConnectReply(frame)
		if c := t.lane.curator; c != nil && err == nil && granted.ID == 0 {
			c.ends(t.lane.now()) // expired
		}
		t.done(0, false)
		return
	}
	header, _, err := wire.ReadHeader(frame)
	if err != nil {
		return
	}
	if header.Xid == wire.XidEvent {
		t.lane.mark("event", "")
		return
	}
	t.done(header.Xid, false)
}

// over marks everything in flight as unanswered.
func (t *tap) over() {
	for xid := range t.pending {
		t.done(xid, true)
	}
}

func (t *tap) done(xid int32, lost bool) {
	n, ok := t.pending[xid]
	if !ok {
		return
	}
	delete(t.pending, xid)
	if i := n - t.lane.dropped; i >= 0 && i < len(t.lane.requests) {
		t.lane.requests[i].Done, t.lane.requests[i].Lost = t.lane.now(), lost
		t.lane.version++
	}
}

// frames splits a stream into frames.
type frames struct {
	rest  []byte
	count int // of complete frames so far
}

// add yields the frames that are complete now. Each is valid until the next call.
func (f *frames) add(b []byte) func(yield func([]byte) bool) {
	f.rest = append(f.rest, b...)
	return func(yield func([]byte) bool) {
		for len(f.rest) >= wire.PrefixSize {
			size := int(binary.BigEndian.Uint32(f.rest))
			if len(f.rest) < wire.PrefixSize+size {
				return
			}
			frame := f.rest[wire.PrefixSize : wire.PrefixSize+size]
			f.rest = f.rest[wire.PrefixSize+size:]
			f.count++
			if !yield(frame) {
				return
			}
		}
	}
}
