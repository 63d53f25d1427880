package session

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// link is one connection to one server, under zk.Conn. It carries our requests beside the library's handshake, pings and
// close, reads the frames that pass in both directions, and supplies what the library keeps to itself: the negotiated
// timeout, and which requests were answered when (for [proof]). And it closes traps of the library from outside:
//
//   - the handshake is bounded, where the library waits for ten times its read timeout, or for ever;
//   - credentials are sent here, since the library can deadlock when it sends them again;
//   - a failed write is a lost connection like any other.
type link struct {
	net.Conn
	session *session
	server  string
	born    time.Time
	// handshakeBy bounds everything up to the connect answer.
	handshakeBy time.Time
	up          atomic.Bool // the connect answer was good
	barrier     atomic.Bool // one was sent, and not refused

	// The reading side, used by one goroutine of the library at a time.
	in   *bufio.Reader
	head []byte // read and looked at, not yet handed on
	rest int    // bytes of the current frame still in `in`
	// patience is how long the library waits for something to read, of which it sees but a part; 0 is for ever.
	patience time.Duration

	writing chan struct{} // holds one while somebody writes, who may have to wait for the server

	mu          sync.Mutex
	greeted     bool // the connect request has been sent
	down        bool
	connectSent time.Time
	pending     map[int32]pending
	unanswered  int // bytes
	pings       []time.Time
	syncs       []time.Time // unanswered, oldest first
	downOnce    sync.Once
}

// pending is a request that was sent and not yet answered.
type pending struct {
	op     int32
	size   int
	sent   time.Time
	answer func(reply, error) // nil of the library's
}

func newLink(s *session, raw net.Conn, server string, handshakeBy time.Time) *link {
	return &link{
		Conn: raw, session: s, server: server, born: time.Now(), handshakeBy: handshakeBy,
		in:      bufio.NewReaderSize(raw, 16<<10),
		writing: make(chan struct{}, 1),
		pending: make(map[int32]pending),
	}
}

// Close closes the connection; the session learns of it at once, whoever closes.
func (l *link) Close() error {
	err := l.Conn.Close()
	l.downOnce.Do(func() {
		l.session.linkDown(l)
		for _, answer := range l.orphans() {
			answer(reply{}, zk.ErrConnectionClosed)
		}
	})
	return err
}

// orphans ends the asking, and returns who waits for an answer.
func (l *link) orphans() (all []func(reply, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for xid, r := range l.pending {
		if r.answer != nil {
			all = append(all, r.answer)
			delete(l.pending, xid)
		}
	}
	return all
}

// ask sends requests in one write, and calls sent, if not nil, when they are out. It reports false, and does nothing, on a
// link that is down.
func (l *link) ask(sent func(), requests []request) bool {
	frames, ok := l.enroll(requests, math.MaxInt)
	if !ok {
		return false
	}
	l.writing <- struct{}{}
	l.flush(frames, sent)
	return true
}

// askNow is ask for one who must not wait: it reports false also if it might have to. It need not if nobody else is
// writing, and so little is unanswered that it has room in the buffers on the way, whatever the server does.
func (l *link) askNow(sent func(), requests []request) bool {
	const room = 4 << 10
	select {
	case l.writing <- struct{}{}:
	default:
		return false
	}
	frames, ok := l.enroll(requests, room)
	if !ok {
		<-l.writing
		return false
	}
	l.flush(frames, sent)
	return true
}

// enroll books requests and returns their frames; false if the link is down or more than room would be unanswered.
func (l *link) enroll(requests []request, room int) (frames []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	for _, r := range requests {
		size += len(r.frame)
	}
	if l.down || l.unanswered+size > room {
		return nil, false
	}
	now := time.Now() // before the bytes leave: a time that is too early only makes the deadline earlier
	for i, r := range requests {
		xid := l.nextXid()
		binary.BigEndian.PutUint32(r.frame[wire.PrefixSize:], uint32(xid))
		l.book(xid, pending{op: r.op, size: len(r.frame), sent: now, answer: r.answer})
		if i == 0 {
			frames = r.frame
		} else {
			frames = append(frames, r.frame...)
		}
	}
	return frames, true
}

// nextXid is called with mu held. The count is the session's: a server takes the commit of a write for that of the request
// which it has under the same session and xid, whatever connection that came by (CommitProcessor of ZooKeeper).
func (l *link) nextXid() int32 {
	for {
		xid := int32(wire.XidOursFirst + l.session.asked.Add(1)%(wire.XidOursLast-wire.XidOursFirst+1))
		if _, taken := l.pending[xid]; !taken {
			return xid
		}
	}
}

// book is called with mu held.
func (l *link) book(xid int32, p pending) {
	l.pending[xid] = p
	l.unanswered += p.size
	if p.op == wire.OpSync {
		l.syncs = append(l.syncs, p.sent)
	}
}

// flush is called with writing held, and gives it up. A connection that cannot be written to is closed, and the reading
// side tells why.
func (l *link) flush(frames []byte, sent func()) {
	_, err := l.Conn.Write(frames)
	<-l.writing
	if sent != nil {
		sent()
	}
	if err != nil {
		_ = l.Close()
	}
}

// Write takes one frame, as the library writes them. Once it has sent the first, it never fails: a connection that cannot
// be written to is closed, and the reading side reports that as what it is.
//
// The first is the connect request. It gets the newest zxid seen, which the library does not know: it keeps us from a
// server that lags behind.
func (l *link) Write(frame []byte) (int, error) {
	l.mu.Lock()
	now := time.Now() // see enroll
	if !l.greeted {
		l.greeted, l.connectSent = true, now
		l.mu.Unlock()
		return l.Conn.Write(wire.WithInt64(frame, wire.PrefixSize+4, l.session.zxid.Load()))
	}
	if xid := wire.Int32At(frame, wire.PrefixSize); xid == wire.XidPing {
		l.pings = append(l.pings, now)
	} else {
		l.book(xid, pending{op: wire.Int32At(frame, wire.PrefixSize+4), size: len(frame), sent: now})
	}
	l.mu.Unlock()
	l.writing <- struct{}{}
	l.flush(frame, nil)
	return len(frame), nil
}

// Read hands on what is for the library.
func (l *link) Read(p []byte) (int, error) {
	for len(l.head) == 0 && l.rest == 0 {
		if err := l.nextFrame(); err != nil {
			if !l.up.Load() {
				l.session.core.connectFailed(fmt.Errorf("connect to %s: %w", l.server, err))
			}
			_ = l.Close() // the library drops the connection for err anyway; this tells the session first
			return 0, err
		}
	}
	if len(l.head) > 0 {
		n := copy(p, l.head)
		l.head = l.head[n:]
		return n, nil
	}
	n, err := l.in.Read(p[:min(len(p), l.rest)])
	l.rest -= n
	if err != nil {
		_ = l.Close() // as above
	}
	return n, err
}

func (l *link) nextFrame() error {
	head := make([]byte, wire.PrefixSize, wire.PrefixSize+wire.ReplyHeaderSize)
	if _, err := io.ReadFull(l.in, head); err != nil {
		return err
	}
	size := int(wire.Int32At(head, 0))
	if !l.up.Load() {
		return l.connectReply(head, size)
	}
	if size < wire.ReplyHeaderSize || size > wire.MaxReply {
		return fmt.Errorf("a frame of %d bytes is not a reply of ZooKeeper", size)
	}
	head = head[:cap(head)]
	if _, err := io.ReadFull(l.in, head[wire.PrefixSize:]); err != nil {
		return err
	}
	xid, zxid, code := wire.Int32At(head, wire.PrefixSize), wire.Int64At(head, wire.PrefixSize+4), wire.Int32At(head, wire.PrefixSize+12)
	if zxid > 0 {
		l.session.zxid.Store(zxid)
	}
	r := l.answered(xid, code)
	if xid == wire.XidEvent || r.answer != nil {
		return l.take(r, reply{zxid, make([]byte, size-wire.ReplyHeaderSize)}, code)
	}
	l.head, l.rest = head, size-wire.ReplyHeaderSize
	return nil
}

// take reads the rest of a frame that is not for the library: the reply to a request of ours, or an event.
func (l *link) take(p pending, r reply, code int32) error {
	_, err := io.ReadFull(l.in, r.body)
	if l.patience > 0 {
		_ = l.Conn.SetReadDeadline(time.Now().Add(l.patience)) // the next read would tell the error
	}
	switch {
	case p.answer != nil && err != nil:
		p.answer(reply{}, zk.ErrConnectionClosed)
	case p.answer != nil:
		p.answer(r, wire.ErrorOf(code))
	case err == nil:
		var e zk.Event
		if e, err = wire.EventOf(r.body); err == nil {
			l.session.onEvent(e)
		}
	}
	return err
}

// answered books a reply as proof of liveness, and returns what it answers, nothing for an event.
func (l *link) answered(xid, code int32) (r pending) {
	now := time.Now()
	l.mu.Lock()
	switch {
	case xid == wire.XidPing && len(l.pings) > 0:
		r = pending{op: wire.OpPing, sent: l.pings[0]}
		l.pings = l.pings[1:]
	case xid >= 0:
		r = l.pending[xid]
		delete(l.pending, xid)
		l.unanswered -= r.size
		if r.op == wire.OpSync && len(l.syncs) > 0 {
			l.syncs = l.syncs[1:]
		}
	}
	l.mu.Unlock()
	if r.sent.IsZero() {
		return r // an event, or an answer to nothing
	}
	if wire.FromTree(code) {
		l.session.answered(r.sent, now, witnessOf(r.op, code))
	}
	return r
}

// oldestSync returns when the oldest unanswered sync was sent; zero if there is none.
func (l *link) oldestSync() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.syncs) == 0 {
		return time.Time{}
	}
	return l.syncs[0]
}
