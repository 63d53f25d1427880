// Package transport moves the bytes of connections: it handles what waits to be written, what is stalled, and how a
// connection ends. It knows about frames, but not about their content.
package transport

import (
	"net"
	"sync"
	"time"
)

// Conn is the server's side of one connection. One goroutine reads and one writes the queue. The reading goroutine also
// writes whatever can be written without blocking, which saves a switch between the two.
type Conn struct {
	In, Out Gate // closed while the direction is stalled

	nc      net.Conn
	thaw    *Gate           // shared by all connections
	closing <-chan struct{} // closed when the server is
	failed  func()          // called when a write fails
	gone    chan struct{}   // closed when no further request is handled and no reply is held back
	cut     chan struct{}   // closed when no further byte is written
	once    struct{ gone, cut sync.Once }
	outbox
	now func(p []byte) int // writes without blocking, see nowWriter; nil if nc cannot
}

// Ending is a way to end a connection.
type Ending int

// The ways to end a connection.
const (
	Flush  Ending = iota // queued bytes are written first, including held replies
	Kick                 // queued bytes are written first, up to the first held reply
	Abrupt               // queued bytes are lost
)

// New returns a connection that neither reads nor writes while the gate is closed. Once closing is closed, stalls have
// no effect. failed is called on the writing goroutine when a write fails.
func New(nc net.Conn, thaw *Gate, closing <-chan struct{}, failed func()) *Conn {
	return &Conn{
		nc: nc, thaw: thaw, closing: closing, failed: failed, gone: make(chan struct{}), cut: make(chan struct{}),
		outbox: outbox{ready: make(chan struct{}, 1)}, now: nowWriter(nc),
	}
}

// Answer writes what the reading goroutine has queued, if that is possible without blocking. If more requests have
// already arrived, it leaves the writing to the writing goroutine, which writes several replies at once.
func (c *Conn) Answer(more bool) {
	if more || c.now == nil || !c.Out.Open() || !c.thaw.Open() {
		c.Wake()
	} else {
		c.writeNow(c.now)
	}
}

// Write is the writing goroutine. It closes the socket when the connection has ended. If the direction is stalled, it
// delays that, because no packet could notify the peer.
func (c *Conn) Write() {
	c.writeQueue()
	c.Out.Pass(c.closing)
	_ = c.nc.Close() // the connection is over either way
}

func (c *Conn) writeQueue() {
	var chunks []chunk
	for {
		c.writing.Lock()
		var last bool
		chunks, last = c.take(chunks)
		ok := c.writeChunks(chunks)
		c.writing.Unlock()
		if !ok || last && len(chunks) == 0 {
			return
		}
		if len(chunks) > 0 {
			continue
		}
		select {
		case <-c.ready:
		case <-c.cut:
			return
		}
	}
}

// writeChunks returns false if the connection has ended.
func (c *Conn) writeChunks(chunks []chunk) bool {
	for _, x := range chunks {
		if x.hold != nil && !x.hold() || !c.Out.Pass(c.cut) || !c.thaw.Pass(c.cut) {
			return false
		}
		sealed := c.sealed()
		if sealed && !c.linger() { // the time that the bytes have waited here does not count
			return false
		}
		if _, err := c.nc.Write(x.data); err != nil {
			if !sealed {
				c.In.Pass(c.gone) // while that direction is stalled, no packet reports that the peer is gone
			}
			c.failed()
			return false
		}
		c.wrote(len(x.data))
	}
	return true
}

// Pass waits while either direction is stalled. It returns false if the connection ended first.
func (c *Conn) Pass() bool { return c.Out.Pass(c.gone) && c.PassIn() }

// PassIn waits while the incoming direction is stalled. It returns false if the connection ended first.
func (c *Conn) PassIn() bool { return c.In.Pass(c.gone) && c.Thawed() }

// Thawed waits while all connections are frozen. It returns false if the connection ended first.
func (c *Conn) Thawed() bool { return c.thaw.Pass(c.gone) }

// Await waits for the channel. It returns false if the connection ended first.
func (c *Conn) Await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-c.gone:
		return false
	}
}

// Pause waits for a duration. It returns false if the connection ended first.
//
// It creates no timer that is already due. If two threads read such timers of one bubble at once, the race detector of
// Go 1.26 crashes: the runtime gives both threads the same context. TestPause_OfNoTime shows it.
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

// End makes the goroutines of the connection end. It does not wait. A later call may end the connection faster.
func (c *Conn) End(how Ending) {
	c.seal()
	if how != Flush {
		c.once.gone.Do(func() { close(c.gone) })
	}
	if how != Abrupt {
		c.linger()
		return
	}
	c.once.cut.Do(func() {
		close(c.cut)
		_ = c.nc.SetDeadline(time.Unix(1, 0)) // ends a read or write in progress
	})
}

// lingerLimit is how long the last bytes may take to reach a peer that does not read.
const lingerLimit = 10 * time.Second

// linger sets a deadline for the last bytes, unless the connection is cut. It checks that after setting the deadline,
// since End closes the channel before it sets a deadline in the past.
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
