package session

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// link is one connection to one server. Two goroutines work for it: the session's own reads, and one writes what callers
// leave in the queue, so that no caller ever waits for the server to take a request. What a socket certainly takes, the
// caller writes: waking a goroutine for it would cost a tenth of a hand-over.
type link struct {
	conn    net.Conn
	session *session
	server  string
	socket  bool // the kernel has room for a little, whatever the server does
	born    time.Time
	up      atomic.Bool // the server has given us the session
	barrier atomic.Bool // a barrier was sent, and not refused

	arriving atomic.Pointer[time.Time] // see arrived

	in       *bufio.Reader
	patience time.Duration // how long the server may be silent; of the reading goroutine; 0 until the link is up
	watchdog *time.Timer   // closes the link when the server has been silent for too long

	wake chan struct{} // tells the writing goroutine that something is queued; holds one
	gone chan struct{} // closed with the link

	mu          sync.Mutex
	why         error // why the link is closed; nil while it is open
	connectSent time.Time
	pending     map[int32]pending
	queue       [][]byte // frames to be written
	queued      int      // how many frames have ever been put into the queue
	written     int      // how many of them have been given to the connection
	writing     bool     // a goroutine writes; it looks at the queue again when it is done
	unanswered  int      // bytes of requests
	pings       []time.Time
	syncs       []time.Time // unanswered, oldest first
	pinger      *time.Timer // nil until the link is up
}

// pending is a request that was queued and not yet answered.
type pending struct {
	op     int32
	size   int
	nth    int // among the frames of the link
	sent   time.Time
	answer func(reply, error)
}

// newLink returns a link that is closed after limit unless the server has given us the session by then.
func newLink(s *session, raw net.Conn, server string, limit time.Duration) *link {
	l := &link{
		conn: raw, session: s, server: server, socket: isSocket(raw), born: time.Now(),
		wake: make(chan struct{}, 1), gone: make(chan struct{}), pending: make(map[int32]pending),
	}
	l.in = bufio.NewReaderSize(l, 4<<10)
	l.watchdog = time.AfterFunc(limit, func() {
		l.fail(fmt.Errorf("no session within %v: the server accepts connections and does not answer", limit))
	})
	return l
}

// errDropped is why a link is closed that we have no use for any more.
var errDropped = errors.New("closed by this client")

// Close closes the link; the session learns of it at once.
func (l *link) Close() error {
	l.fail(errDropped)
	return nil
}

// fail closes the link; the first reason counts. When it returns the session knows, also if another goroutine came first.
// Holds that end with the connection end before the calls fail that wait for an answer.
func (l *link) fail(why error) {
	l.mu.Lock()
	var unanswered map[int32]pending
	written := l.written
	if l.why == nil {
		l.why = why
		close(l.gone)
		unanswered, l.pending = l.pending, nil
		l.watchdog.Stop()
		if l.pinger != nil {
			l.pinger.Stop()
		}
	}
	l.mu.Unlock()
	hangUp(l.conn)
	l.session.linkDown(l)
	for _, r := range unanswered {
		if r.nth > written {
			r.answer(reply{}, zk.ErrNoServer) // it has never left
		} else {
			r.answer(reply{}, zk.ErrConnectionClosed)
		}
	}
}

// hangUp closes a connection without a word: to say goodbye, TLS would wait for a server that takes nothing any more.
func hangUp(c net.Conn) { _ = beneathTLS(c).Close() }

// isSocket reports whether c is one of the kernel's, with a buffer. Other connections may have none, as net.Pipe.
func isSocket(c net.Conn) bool {
	_, ok := beneathTLS(c).(syscall.Conn)
	return ok
}

func beneathTLS(c net.Conn) net.Conn {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		return secured.NetConn()
	}
	return c
}

// reason returns why the link is closed.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// ask sends requests in this order, and before everything that is asked later. It waits for nothing. It reports false, and
// does nothing, on a link that is closed.
func (l *link) ask(requests []request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil {
		return false
	}
	now := time.Now() // before the bytes leave: a time that is too early only makes the deadline earlier
	for _, r := range requests {
		xid := l.nextXid()
		wire.SetXid(r.frame, xid)
		l.enqueue(r.frame)
		l.pending[xid] = pending{op: r.op, size: len(r.frame), nth: l.queued, sent: now, answer: r.answer}
		l.unanswered += len(r.frame)
		if r.op == wire.OpSync {
			l.syncs = append(l.syncs, now)
		}
	}
	l.flush()
	return true
}

// room is what the buffers of a socket hold at least.
const room = 4 << 10

// flush sees to it that the queue is written: here if nobody is writing, and so little is unanswered that a socket has room
// for it, else by the writing goroutine. Called with mu held, which it gives up while it writes.
func (l *link) flush() {
	if l.writing {
		return
	}
	if l.socket && l.unanswered <= room {
		l.writeQueue()
	}
	if len(l.queue) > 0 { // or more has come meanwhile, which may be too much for a caller
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// writeQueue writes what is in the queue now. Called with mu held, which it gives up while it writes.
func (l *link) writeQueue() {
	frames := l.queue
	l.queue, l.written, l.writing = nil, l.queued, true
	l.mu.Unlock()
	err := writeAll(l.conn, frames...)
	if err != nil {
		l.fail(err)
	}
	l.mu.Lock()
	l.writing = false
}

// nextXid is called with mu held. The count is the session's: a server takes the commit of a write for that of the request
// which it has under the same session and xid, whatever connection that came by (CommitProcessor of ZooKeeper). Xids are
// positive, or the server would not count the requests among those that it throttles by
// (ServerCnxn.incrOutstandingAndCheckThrottle).
func (l *link) nextXid() int32 {
	for {
		xid := int32(l.session.asked.Add(1) & 0x7fffffff)
		if _, taken := l.pending[xid]; !taken && xid != 0 {
			return xid
		}
	}
}

// enqueue is called with mu held.
func (l *link) enqueue(frame []byte) {
	l.queue = append(l.queue, frame)
	l.queued++
}

// prepare queues the connect request, which nothing can overtake any more, and returns the time.
func (l *link) prepare(connect []byte) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connectSent = time.Now() // see ask
	l.enqueue(connect)
	return l.connectSent
}

// start sends it.
func (l *link) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

// show sends a credential. The server answers it before anything that is sent later.
func (l *link) show(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enqueue(frame)
	l.flush()
}

// goodbye ends the session on the server, and closes the link when that is done, at the latest after a second.
func (l *link) goodbye() {
	done := func(reply, error) { l.fail(errDropped) }
	if l.ask([]request{{wire.OpClose, wire.CloseFrame(), done}}) {
		time.AfterFunc(time.Second, func() { l.fail(errDropped) })
	}
}

// keepAlive sends a ping after every interval, until the link is closed.
func (l *link) keepAlive(interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinger = time.AfterFunc(interval, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.why == nil {
			l.pings = append(l.pings, time.Now()) // see ask
			l.enqueue(wire.PingFrame())
			l.flush()
			l.pinger.Reset(interval)
		}
	})
}

// write writes what callers leave in the queue, until the link is closed.
func (l *link) write() {
	for {
		select {
		case <-l.wake:
		case <-l.gone:
			return
		}
		l.mu.Lock()
		for !l.writing && len(l.queue) > 0 && l.why == nil {
			l.writeQueue()
		}
		l.mu.Unlock()
	}
}

// writeAll writes the frames at once: one segment, where the kernel would make one of each.
func writeAll(c net.Conn, frames ...[]byte) error {
	var all []byte
	if len(frames) == 1 {
		all = frames[0]
	} else {
		all = slices.Concat(frames...)
	}
	_, err := c.Write(all)
	return err
}

// Read reads from the connection, for the reader of frames. Every byte shows that the server is there.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.conn.Read(p)
	if n > 0 && l.patience > 0 {
		l.watchdog.Reset(l.patience)
	}
	if n > 0 && l.arriving.Load() != nil {
		l.note()
	}
	return n, err
}

// readSize reads the length of a frame.
func readSize(r io.Reader) (int, error) {
	var prefix [wire.PrefixSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix[:])))
	if size < 0 {
		return 0, noServer(size)
	}
	return size, nil
}

func noServer(size int) error {
	return fmt.Errorf("this is no ZooKeeper server: it sent a frame of %d bytes", size)
}

// readFrame reads a frame of at most so many bytes, and returns it without its length.
func readFrame(r io.Reader, most int) ([]byte, error) {
	size, err := readSize(r)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, noServer(size)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	return frame, nil
}

// read takes in what the server sends, in its order, until the link is closed.
func (l *link) read() error {
	most := l.session.core.opts.MaxReply
	for {
		size, err := readSize(l.in)
		if err == nil && size > l.in.Buffered() {
			l.note()
		}
		if err == nil && size > most {
			err = l.skip(size)
		} else if err == nil {
			err = l.take(size)
		}
		l.arriving.Store(nil)
		if err != nil {
			return err
		}
	}
}

// take takes in a frame of so many bytes: the reply to a request, or an event.
func (l *link) take(size int) error {
	frame := make([]byte, size)
	if _, err := io.ReadFull(l.in, frame); err != nil {
		return err
	}
	h, body, err := wire.ReadHeader(frame)
	if err != nil {
		return err
	}
	if h.Zxid > 0 {
		l.session.zxid.Store(h.Zxid)
	}
	r := l.answered(h.Xid, h.Code)
	switch {
	case r.answer != nil:
		r.answer(reply{h.Zxid, body}, wire.ErrorOf(h.Code))
	case h.Xid == wire.XidEvent:
		e, err := wire.EventOf(body)
		if err != nil {
			return err
		}
		l.session.onEvent(e)
	}
	return nil
}

// skip reads past a frame that is too large, and fails its call. The connection lives on.
func (l *link) skip(size int) error {
	var header [wire.ReplyHeaderSize]byte
	if _, err := io.ReadFull(l.in, header[:]); err != nil {
		return err
	}
	h, _, err := wire.ReadHeader(header[:])
	if err != nil {
		return err
	}
	r := l.answered(h.Xid, h.Code)
	if r.answer == nil {
		return l.session.core.tooLargeReply(size) // an event must not be lost: on the next connection every watch fires
	}
	r.answer(reply{}, l.session.core.tooLargeReply(size))
	_, err = io.CopyN(io.Discard, l.in, int64(size-len(header)))
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

// note books that a part of a frame has arrived. What the server sends behind a large reply on a slow line comes late, and
// that is no reason to give the connection up: the same reply would be as slow on the next.
func (l *link) note() {
	now := time.Now()
	l.arriving.Store(&now)
}

// arrived returns when the newest part of a frame came that is not complete; zero between frames.
func (l *link) arrived() time.Time {
	if at := l.arriving.Load(); at != nil {
		return *at
	}
	return time.Time{}
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
