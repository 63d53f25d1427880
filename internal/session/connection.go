package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// connection is one connection to one server. Two goroutines work for it: one reads, one writes what callers leave in the
// queue. So no caller ever waits until the server takes a request. If a socket certainly has room for a request, the caller
// writes it itself: waking the writer would make a hand-over of a lock a tenth slower.
type connection struct {
	conn    net.Conn
	session *session
	server  string
	socket  bool // it has a buffer in the kernel
	born    time.Time
	up      atomic.Bool // the server has given us the session
	barrier atomic.Bool // a barrier was sent, and not refused

	arriving atomic.Bool               // a part of a frame has come, and not all of it
	newest   atomic.Pointer[time.Time] // see arrived

	in       *bufio.Reader
	patience time.Duration // how long the server may be silent; only for the reading goroutine; 0 until the connection is up
	watchdog *time.Timer   // closes the connection when the server has been silent for too long

	wake chan struct{} // tells the writing goroutine that something is queued; holds one
	gone chan struct{} // closed with the connection

	mu          sync.Mutex
	why         error // why the connection is closed; nil while it is open
	failing     int   // goroutines that are telling the session that the connection is down
	connectSent time.Time
	pending     []pending // oldest first: replies come in this order
	queue       [][]byte  // frames to be written
	queued      int       // how many frames have ever been put into the queue
	written     int       // how many of them have been given to the connection
	writing     bool      // a goroutine writes; it looks at the queue again when it is done
	unanswered  int       // bytes of requests
	pings       []time.Time
	pinger      *time.Timer // nil until the connection is up
}

// pending is a request that was queued and not yet answered.
type pending struct {
	xid    int32
	op     int32
	size   int
	nth    int // among the frames of the connection
	sent   time.Time
	answer func(reply, error)
}

// newConnection returns a connection that is closed after limit unless the server has given us the session by then.
func newConnection(s *session, raw net.Conn, server string, limit time.Duration) *connection {
	c := &connection{
		conn: raw, session: s, server: server, socket: isSocket(raw), born: time.Now(),
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	c.in = bufio.NewReaderSize(c, 4<<10)
	c.mu.Lock() // the limit may have passed, and then fail is called at once
	defer c.mu.Unlock()
	c.watchdog = time.AfterFunc(limit, func() {
		if c.up.Load() {
			c.fail(errSilent)
			return
		}
		c.fail(fmt.Errorf("no session within %v: the server accepted the connection and did not answer", rounded(limit)))
	})
	return c
}

// errSilent is the reason when a connection that was up is given up.
var errSilent = errors.New("the server sent nothing for two thirds of the session timeout")

// errDropped is the reason when this client closes a connection.
var errDropped = errors.New("closed by this client")

// Close closes the connection; the session learns of it at once.
func (c *connection) Close() error {
	c.fail(errDropped)
	return nil
}

// fail closes the connection; the first reason counts. When fail returns, the session knows that the connection is down, also
// if another goroutine closed it first. The holds that end with the connection end before the unanswered calls fail: another
// goroutine may still be ending them, so the last goroutine to come back from there fails the calls.
func (c *connection) fail(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
		close(c.gone)
		c.watchdog.Stop()
		if c.pinger != nil {
			c.pinger.Stop() // it keeps the connection in memory
		}
	}
	c.failing++
	c.mu.Unlock()
	hangUp(c.conn)
	c.session.connectionDown(c)

	c.mu.Lock()
	var unanswered []pending
	if c.failing--; c.failing == 0 {
		unanswered, c.pending = c.pending, nil
	}
	written := c.written
	c.mu.Unlock()
	for _, r := range unanswered {
		if r.nth > written {
			r.answer(reply{}, zk.ErrNoServer) // it was never written
		} else {
			r.answer(reply{}, zk.ErrConnectionClosed)
		}
	}
}

// hangUp closes a connection at once. Close of a TLS connection would first wait until the server takes an alert.
func hangUp(c net.Conn) { _ = beneathTLS(c).Close() }

// isSocket reports whether c is a socket, which has a buffer in the kernel. Other connections may have none, such as net.Pipe.
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

// reason returns why the connection is closed.
func (c *connection) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// ask sends requests in this order, and before all later requests. It does not wait. On a closed connection it reports false
// and does nothing. The context is for tracers.
func (c *connection) ask(ctx context.Context, requests []request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return false
	}
	now := time.Now() // before the bytes leave: a time that is too early only makes the deadline earlier
	for _, r := range requests {
		if tracers := c.session.core.opts.Tracers; tracers.ObserveRequests() {
			r.answer = traced(ctx, tracers, r, now)
		}
		xid := c.nextXid()
		wire.SetXid(r.frame, xid)
		c.enqueue(r.frame)
		c.pending = append(c.pending, pending{xid: xid, op: r.op, size: len(r.frame), nth: c.queued, sent: now, answer: r.answer})
		c.unanswered += len(r.frame)
	}
	c.flush()
	return true
}

// room is how many bytes the buffers of a socket hold at least.
const room = 4 << 10

// flush makes sure that the queue gets written. It writes the queue itself if no goroutine is writing, and if so little is
// unanswered that a socket has room for it, whatever the server does. Otherwise it wakes the writer. Called with mu held,
// which it releases while it writes.
func (c *connection) flush() {
	if c.writing {
		return
	}
	if c.socket && c.unanswered <= room {
		c.writeQueue()
	}
	if len(c.queue) > 0 { // also what came meanwhile, which may be more than a socket has room for
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// writeQueue writes what is in the queue now. Called with mu held, which it releases while it writes.
func (c *connection) writeQueue() {
	frames := c.queue
	c.queue, c.written, c.writing = nil, c.queued, true
	c.mu.Unlock()
	err := writeAll(c.conn, frames...)
	if err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	c.writing = false
}

// nextXid returns an xid that no request of the session has had in the last two billion. A server matches the commit of a
// write to the request it holds by session and xid alone (CommitProcessor of ZooKeeper). If an xid came again on the next
// connection, a request could get the outcome of an earlier one. Xids are positive, since servers do not count other requests
// when they throttle (ServerCnxn.incrOutstandingAndCheckThrottle).
func (c *connection) nextXid() int32 {
	for {
		if xid := int32(c.session.asked.Add(1) & 0x7fffffff); xid != 0 {
			return xid
		}
	}
}

// enqueue is called with mu held.
func (c *connection) enqueue(frame []byte) {
	c.queue = append(c.queue, frame)
	c.queued++
}

// prepare queues the connect request ahead of all others, and returns the time at which it counts as sent.
func (c *connection) prepare(connect []byte) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connectSent = time.Now() // see ask
	c.enqueue(connect)
	return c.connectSent
}

// start sends the connect request.
func (c *connection) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
}

// show sends a credential. The server answers it before all later requests.
func (c *connection) show(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(frame)
	c.flush()
}

// endSession closes the session on the server, and then the connection, at the latest after a second.
func (c *connection) endSession() {
	done := func(reply, error) { c.fail(errDropped) }
	if c.ask(c.session.ctx, []request{{wire.OpClose, "/", wire.CloseFrame(), done}}) {
		time.AfterFunc(time.Second, func() { c.fail(errDropped) })
	}
}

// keepAlive sends a ping after every interval, until the connection is closed.
func (c *connection) keepAlive(interval time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinger = time.AfterFunc(interval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.why == nil {
			c.pings = append(c.pings, time.Now()) // see ask
			c.enqueue(wire.PingFrame())
			c.flush()
			c.pinger.Reset(interval)
		}
	})
}

// write writes what callers leave in the queue, until the connection is closed.
func (c *connection) write() {
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return
		}
		c.mu.Lock()
		for !c.writing && len(c.queue) > 0 && c.why == nil {
			c.writeQueue()
		}
		c.mu.Unlock()
	}
}

// writeAll writes the frames with one system call, so that they share a segment.
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

// oldestSync returns when the oldest unanswered sync was sent; zero if there is none.
func (c *connection) oldestSync() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.op == wire.OpSync {
			return r.sent
		}
	}
	return time.Time{}
}
