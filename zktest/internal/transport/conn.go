// Package transport moves the bytes of connections: what waits to be written, what is stalled, and how a connection ends. It
// knows frames, and not what is in them.
package transport

import (
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// Conn is the server's side of one connection. One goroutine reads and one writes the queue. The first also writes what
// needs no waiting, which saves a switch between the two.
type Conn struct {
	In, Out Gate // closed while the direction is stalled

	nc      net.Conn
	thaw    *Gate           // of all connections
	closing <-chan struct{} // closed when the server is
	failed  func()          // called when a write fails
	gone    chan struct{}   // closed when no further request is handled and no reply is held back
	cut     chan struct{}   // closed when no further byte is written
	once    struct{ gone, cut sync.Once }
	outbox  outbox
	now     func(p []byte) int // writes without waiting, see nowWriter; nil if nc cannot
}

// Ending is a way to end a connection.
type Ending int

// The ways to end a connection.
const (
	Flush  Ending = iota // queued bytes are written first, held replies included
	Kick                 // queued bytes are written first, up to the first held reply
	Abrupt               // what is queued is lost
)

// New returns a connection that neither reads nor writes while the gate is closed. After closing, no stall holds it. The
// function failed is called on the writing goroutine when a write fails.
func New(nc net.Conn, thaw *Gate, closing <-chan struct{}, failed func()) *Conn {
	return &Conn{
		nc: nc, thaw: thaw, closing: closing, failed: failed, gone: make(chan struct{}), cut: make(chan struct{}),
		outbox: outbox{ready: make(chan struct{}, 1)}, now: nowWriter(nc),
	}
}

// Queue queues one frame, which fill writes, behind a hold if there is one. It reports false if nothing is taken any more.
// The caller sees to the writing, by Wake or by Answer.
func (c *Conn) Queue(hold <-chan struct{}, fill func(*proto.Encoder)) bool {
	return c.outbox.put(hold, fill)
}

// QueueText queues bytes that are not a frame.
func (c *Conn) QueueText(text string) { c.outbox.putText(text) }

// Unread is the number of bytes that the peer has not taken.
func (c *Conn) Unread() int { return c.outbox.size() }

// Full returns a channel that is closed when there is room for the next reply, or nil if there is room now.
func (c *Conn) Full() <-chan struct{} { return c.outbox.full() }

// Deafen makes the queue drop further bytes. The connection stays open.
func (c *Conn) Deafen() { c.outbox.deafen() }

// Wake makes the writing goroutine write what is queued.
func (c *Conn) Wake() { c.outbox.wake() }

// Answer writes what the reading goroutine has queued, if that needs no waiting. If more requests are there already, it
// leaves that to the writing goroutine, which writes several replies at once.
func (c *Conn) Answer(more bool) {
	if more || c.now == nil || !c.Out.Open() || !c.thaw.Open() {
		c.outbox.wake()
	} else {
		c.outbox.writeNow(c.now)
	}
}

// Write is the writing goroutine. It closes the socket when the connection has ended. If the direction is stalled it
// delays that, because no packet could notify the peer.
func (c *Conn) Write() {
	c.writeQueue()
	c.Out.Pass(c.closing)
	_ = c.nc.Close() // the connection is over either way
}

func (c *Conn) writeQueue() {
	var chunks []chunk
	for {
		c.outbox.writing.Lock()
		var last bool
		chunks, last = c.outbox.take(chunks)
		ok := c.writeChunks(chunks, last)
		c.outbox.writing.Unlock()
		if !ok || last && len(chunks) == 0 {
			return
		}
		if len(chunks) > 0 {
			continue
		}
		select {
		case <-c.outbox.ready:
		case <-c.cut:
			return
		}
	}
}

// writeChunks returns false if the connection has ended.
func (c *Conn) writeChunks(chunks []chunk, last bool) bool {
	for _, x := range chunks {
		if x.hold != nil && !c.Await(x.hold) || !c.Out.Pass(c.cut) || !c.thaw.Pass(c.cut) {
			return false
		}
		if last && !c.linger() {
			return false
		}
		if _, err := c.nc.Write(x.data); err != nil {
			c.failed()
			return false
		}
		c.outbox.wrote(len(x.data))
	}
	return true
}

// PassIn waits while what comes in is stalled; false means that the connection ended first.
func (c *Conn) PassIn() bool { return c.In.Pass(c.gone) && c.Thawed() }

// Thawed waits while all connections stand still; false means that the connection ended first.
func (c *Conn) Thawed() bool { return c.thaw.Pass(c.gone) }

// Await waits for the channel; false means that the connection ended first.
func (c *Conn) Await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-c.gone:
		return false
	}
}

// Pause waits for a time; false means that the connection ended first.
//
// No timer is made that is due already. If two threads read such timers of one bubble at once, the race detector of Go 1.26 crashes:
// the runtime gives both threads one context. TestPause_OfNoTime shows it.
func (c *Conn) Pause(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-c.gone:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	}
}

// End makes the goroutines of the connection end. It does not wait. A later call may end it faster.
func (c *Conn) End(how Ending) {
	c.outbox.close()
	if how != Flush {
		c.once.gone.Do(func() { close(c.gone) })
	}
	if how != Abrupt {
		c.linger()
		return
	}
	c.once.cut.Do(func() {
		close(c.cut)
		_ = c.nc.SetDeadline(time.Unix(1, 0)) // ends a read or write that is under way
	})
}

// lingerLimit is how long the last bytes may take to a peer that does not read.
const lingerLimit = 10 * time.Second

// linger gives the last bytes their time, unless the connection is cut. It looks at that after it has set the deadline,
// since End sets one in the past after it has closed the channel.
func (c *Conn) linger() bool {
	_ = c.nc.SetWriteDeadline(time.Now().Add(lingerLimit)) // a broken connection fails at the write
	select {
	case <-c.cut:
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0))
		return false
	default:
		return true
	}
}
