// Package link implements one connection to one server: what is in flight, in which order, and how the connection ends.
// The connection knows nothing about the session; its owner does, and the connection reports to it what the server
// sends.
package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// Owner is what a connection needs from the session that it serves. Its methods are called without a lock, except for
// NextXid.
type Owner interface {
	// NextXid returns the number of the next request. It must not block.
	NextXid() int32
	// Saw receives the zxid of a reply or an event before the rest of it is reported.
	Saw(zxid int64)
	// Answered receives what an answer shows: the opcode, the error code, when the request was sent and when the answer
	// arrived. It is called before the request's Done.
	Answered(op, code int32, sent, at time.Time)
	// Expired receives an answer that reports the end of the session. It is called after the request's Done, so that a
	// caller learns of the answer and not only of the end.
	Expired(err error)
	// TooLarge returns the error for a reply of size bytes if the owner does not accept one that large, otherwise nil.
	TooLarge(size int) error
	// Event receives an event. It is called on the reading goroutine, in the order of the replies.
	Event(e zk.Event)
	// Down is called for every connection that closes, possibly more than once. When it returns, the holds that end
	// with the connection have ended.
	Down(c *Connection)
}

// Connection is one connection to one server, with two goroutines: one reads, and one writes what callers leave in the
// queue, so that no caller ever waits for the server to accept a request. If the socket certainly has room for a
// request, the caller writes it itself: waking the writer would slow down the hand-over of a lock by a tenth.
type Connection struct {
	conn   net.Conn
	owner  Owner
	server string
	socket bool // whether it has a buffer in the kernel
	born   time.Time
	up     atomic.Bool // whether the session is established on it

	newest atomic.Pointer[time.Time] // see Arrived

	in *bufio.Reader
	// Part of a frame has arrived, but not all of it; only for the reading goroutine, like the next three.
	arriving bool
	progress int           // bytes of it that have arrived since they last counted
	unasked  bool          // it is an event, or something that was not requested
	patience time.Duration // how long the server may stay silent; 0 until the connection is up
	watchdog *time.Timer   // closes the connection when the server has been silent for too long
	// When the server will have been silent for too long, counted from born; 0 until the connection is up. The watchdog is
	// set to that time or an earlier one.
	barksAt atomic.Int64
	mute    atomic.Bool // whether that is because only events arrive

	wake    chan struct{} // signals the writing goroutine that something is queued; holds one
	gone    chan struct{} // closed with the connection
	settled chan struct{} // see Settled

	mu      sync.Mutex
	why     error      // why the connection is closed; nil while it is open
	ending  bool       // see AskLast
	failing int        // goroutines that are notifying the owner that the connection is down
	settles bool       // one of them has begun to fail the unanswered calls
	pending []pending  // oldest first: replies come in this order
	few     [8]pending // memory for pending while they are few
	queue   [][]byte   // frames to be written
	// Empty; memory for the queue, after a short one was written.
	spare [][]byte
	// Memory for a few short frames that are written together; only for the writing goroutine.
	batch   []byte
	queued  int // how many frames have ever been put into the queue
	written int // how many of them have been passed to the connection
	// Whether a goroutine is writing; it checks the queue again when it is done.
	writing    bool
	unanswered int // bytes of requests
	pings      []time.Time
	// When the latest ping, sync or write was sent that the server has accepted and answered.
	acceptedSent time.Time
	pinger       *time.Timer // nil until the connection is up
}

// Dial opens a connection to a server, as part of an attempt that has begun at the given time. If the connection is not
// up within the limit of the attempt, it is closed.
func Dial(
	ctx context.Context, began time.Time, limit time.Duration, server string,
	dial func(context.Context) (net.Conn, error), owner Owner,
) (*Connection, error) {
	ctx, cancel := context.WithDeadline(ctx, began.Add(limit))
	raw, err := dial(ctx)
	if err != nil && ctx.Err() != nil {
		// The dialer's wording adds nothing.
		err = fmt.Errorf("no connection within %v", Rounded(limit))
	}
	cancel()
	if err != nil {
		return nil, err
	}
	return newConnection(owner, raw, server, limit, time.Since(began)), nil
}

// newConnection returns a connection that is closed unless the server gives us the session within the limit. spent is
// how much of the limit has passed.
func newConnection(owner Owner, raw net.Conn, server string, limit, spent time.Duration) *Connection {
	c := &Connection{
		conn: raw, owner: owner, server: server, socket: isSocket(raw), born: time.Now(),
		wake: make(chan struct{}, 1), gone: make(chan struct{}), settled: make(chan struct{}),
	}
	c.in = bufio.NewReaderSize(c, 4<<10)
	c.mu.Lock() // the limit may have passed, in which case Fail is called immediately
	defer c.mu.Unlock()
	c.watchdog = time.AfterFunc(limit-spent, func() {
		if c.up.Load() {
			c.bark()
			return
		}
		c.Fail(fmt.Errorf("no session within %v: the server accepted the connection and did not answer", Rounded(limit)))
	})
	return c
}

// bark closes a connection that is up if the server has been silent for too long. Otherwise it sets the watchdog again,
// so that no frame has to.
func (c *Connection) bark() {
	due, now := c.born.Add(time.Duration(c.barksAt.Load())), time.Now()
	if now.Before(due) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.why == nil {
			c.watchdog.Reset(due.Sub(now))
		}
		return
	}
	why := errSilent
	if c.mute.Load() {
		why = errMute
	}
	c.Fail(Overdue(why, due, now))
}

// Rounded drops the digits of a duration that no reader needs.
func Rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// windowsReset is what Windows returns for a connection that the other side has reset, instead of syscall.ECONNRESET.
const windowsReset = syscall.Errno(10054)

// HungUp reports whether err means that the other side has closed the connection.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, windowsReset)
}

// Serve runs the connection from the connect request, which Prepare has queued, until it ends. shakeHands processes the
// answer. The error is the reason the connection never came up.
func (c *Connection) Serve(shakeHands func() error) error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	c.start()
	err := shakeHands()
	if err == nil {
		err = c.read()
	}
	if HungUp(err) {
		err = c.endedBecause(err)
	}
	c.Fail(err)
	writer.Wait()
	if c.up.Load() {
		return nil
	}
	return c.Reason()
}

// endedBecause explains err, with which the server has ended the connection.
func (c *Connection) endedBecause(err error) error {
	switch {
	case c.up.Load():
		return fmt.Errorf("the server closed the connection: %w", err)
	case beneathTLS(c.conn) != c.conn:
		return fmt.Errorf("the server closed the connection without an answer: %w (it may be starting)", err)
	default:
		return fmt.Errorf("the server closed the connection without an answer: %w (it may be starting, "+
			"or is this a TLS port? see WithTLS)",
			err)
	}
}

// Server returns the server that was dialed.
func (c *Connection) Server() string { return c.server }

// Lasted reports whether the connection came up, and was opened more than a second ago.
func (c *Connection) Lasted() bool { return c.up.Load() && time.Since(c.born) > time.Second }

// errSilent is the reason for giving up a connection that was up.
var errSilent = errors.New("the server sent nothing for two thirds of the session timeout")

// errMute is the reason if the server sends nothing but events.
var errMute = errors.New("the server sent events but no answers for half of the session timeout")

// Overdue returns err. If more than a second lies between due and now, the error adds that this process did not run in
// between: a frozen process hears nothing, and the server is not to blame.
func Overdue(err error, due, now time.Time) error {
	if late := now.Sub(due); late > time.Second {
		return fmt.Errorf("this process did not run for %v: %w", Rounded(late), err)
	}
	return err
}

// errDropped is the reason when this client closes a connection.
var errDropped = errors.New("closed by this client")

// Drop closes the connection; the owner is notified immediately.
func (c *Connection) Drop() { c.Fail(errDropped) }

// Fail closes the connection; the first reason counts. When Fail returns, the owner knows that the connection is down,
// even if another goroutine closed it first. The holds that end with the connection end before the unanswered calls
// fail: another goroutine may still be ending them, so the last goroutine to return from Down fails the calls.
func (c *Connection) Fail(why error) {
	c.mu.Lock()
	c.refuse(why)
	c.failing++
	c.mu.Unlock()
	hangUp(c.conn)
	c.owner.Down(c)

	c.mu.Lock()
	var unanswered []pending
	if c.failing--; c.failing == 0 {
		unanswered, c.pending = c.pending, nil
	}
	settles := c.failing == 0 && !c.settles
	c.settles = c.settles || settles
	written := c.written
	c.mu.Unlock()
	for _, r := range unanswered {
		if r.nth > written {
			r.done(Reply{Sent: r.sent}, zk.ErrNoServer) // it was never written
		} else {
			r.done(Reply{Sent: r.sent}, zk.ErrConnectionClosed)
		}
	}
	clear(unanswered) // it may use the array few, which would keep the callers in memory
	if settles {
		close(c.settled)
	}
}

// Settled returns a channel that is closed when the connection is closed and all its calls have been answered or have
// failed. That may be later than Serve returns, since another goroutine may be failing them.
func (c *Connection) Settled() <-chan struct{} { return c.settled }

// refuse makes the connection accept no more requests; the first reason counts. The caller holds mu.
func (c *Connection) refuse(why error) {
	if c.why != nil {
		return
	}
	c.why = why
	close(c.gone)
	c.watchdog.Stop()
	if c.pinger != nil {
		c.pinger.Stop() // it keeps the connection in memory
	}
}

// FailIdle is Fail if nothing is in flight, so that no caller loses a reply. Otherwise it does nothing and reports
// false.
func (c *Connection) FailIdle(why error) bool {
	c.mu.Lock()
	idle := c.why == nil && len(c.pending)+len(c.queue)+len(c.pings) == 0 && !c.writing
	if idle {
		c.refuse(why) // later requests wait for the next connection
	}
	c.mu.Unlock()
	if idle {
		c.Fail(why)
	}
	return idle
}

// hangUp closes a connection immediately. Closing a TLS connection would first wait until the server accepts an alert.
func hangUp(c net.Conn) { _ = beneathTLS(c).Close() }

// isSocket reports whether c is a socket, which has a buffer in the kernel. Other connections, such as net.Pipe, may
// have none.
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

// Reason returns why the connection is closed, or nil while it is open.
func (c *Connection) Reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}
