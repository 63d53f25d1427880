package link

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Request is one request to the server.
type Request struct {
	Op    int32
	Frame []byte // without its xid, which is set later; the connection owns it
	// Done receives the reply, or the error if there will be none. It is called once, usually on the goroutine that
	// reads from the connection, and must not block.
	Done func(Reply, error)
}

// Reply is a server's answer, or stands for one that never arrived.
type Reply struct {
	Zxid int64
	Body []byte
	Lent bool      // the body is valid until Done returns
	Sent time.Time // before the request was sent
	At   time.Time // when it arrived; zero if there is none
}

// pending is a request that was queued and not yet answered.
type pending struct {
	xid  int32
	op   int32
	size int
	nth  int // its position among the frames of the connection
	sent time.Time
	done func(Reply, error)
}

// Ask sends the requests in this order, before all later ones, without waiting. If sent is not nil, Ask calls it before
// anything is written, so that requests made by it go out in the same write, unless another goroutine is writing just
// then. On a closed connection, and after AskLast, Ask does nothing and reports false.
func (c *Connection) Ask(requests []Request, sent func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ending && c.send(requests, sent)
}

// AskLast is Ask for the requests that end the session. Requests made with Ask are sent before the first of them, or
// refused.
func (c *Connection) AskLast(requests []Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	return c.send(requests, nil)
}

// send queues and flushes requests. The caller holds mu.
func (c *Connection) send(requests []Request, sent func()) bool {
	if c.why != nil {
		return false
	}
	if len(c.pending) == 0 {
		c.pending = c.few[:0]
	}
	now := time.Now() // before the bytes leave: a time that is too early only makes the deadline earlier
	for _, r := range requests {
		xid := c.owner.NextXid()
		wire.SetXid(r.Frame, xid)
		c.enqueue(r.Frame)
		before := c.pending
		c.pending = append(c.pending, pending{xid: xid, op: r.Op, size: len(r.Frame), nth: c.queued, sent: now, done: r.Done})
		if len(before) == cap(before) { // they have moved, and the array few would keep the answers in memory
			clear(before)
		}
		c.unanswered += len(r.Frame)
	}
	if sent != nil {
		c.withhold(sent)
	}
	if c.why == nil { // otherwise the requests have failed
		c.flush()
	}
	return true
}

// withhold calls f and keeps everyone from starting to write until it returns. A goroutine that is writing already may
// go on. The caller holds mu, which is released while f runs.
func (c *Connection) withhold(f func()) {
	mine := !c.writing // a goroutine that is writing already checks the queue again
	c.writing = true
	c.mu.Unlock()
	f()
	c.mu.Lock()
	if mine {
		c.writing = false
	}
}

// shortBatch is how many bytes a connection keeps for frames that are written together.
const shortBatch = 512

// room is the least number of bytes that a socket's buffers hold.
const room = 4 << 10

// flush makes sure that the queue gets written. It writes the queue itself if no goroutine is writing, and if so little
// is unanswered that a socket has room for it, whatever the server does. Otherwise it wakes the writer. The caller
// holds mu, which is released while it writes.
func (c *Connection) flush() {
	if c.writing {
		return
	}
	if c.socket && c.unanswered <= room {
		c.writeQueue()
	}
	// Including what was queued during the write, which may be more than a socket has room for.
	if len(c.queue) > 0 {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// writeQueue writes what is in the queue now. The caller holds mu, which is released while it writes.
func (c *Connection) writeQueue() {
	frames := c.queue
	c.queue, c.spare, c.written, c.writing = c.spare, nil, c.queued, true
	memory := c.batch
	c.mu.Unlock()
	all := join(memory, frames...)
	_, err := c.conn.Write(all)
	if err != nil {
		c.Fail(err)
	}
	c.mu.Lock()
	c.writing = false
	if len(frames) > 1 && cap(all) <= shortBatch {
		c.batch = all
	}
	for _, frame := range frames {
		wire.Recycle(frame)
	}
	if cap(frames) <= len(c.few) {
		clear(frames)
		c.spare = frames[:0]
	}
}

// enqueue adds a frame to the queue. The caller holds mu.
func (c *Connection) enqueue(frame []byte) {
	c.queue = append(c.queue, frame)
	c.queued++
}

// Prepare queues the connect request ahead of all others, and returns the time at which it counts as sent.
func (c *Connection) Prepare(connect []byte) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := time.Now() // too early is safe; see send
	c.enqueue(connect)
	return sent
}

// start sends the connect request.
func (c *Connection) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
}

// keepAlive sends a ping when the latest answered ping, sync or write is an interval old, until the connection is
// closed. A client that keeps a hold proven therefore needs no pings.
//
// Source: each request touches the session (ZooKeeper's ZooKeeperServer.submitRequestNow), and the Java client pings
// only when it has sent nothing else (SendThread.run of ClientCnxn). Here only answered requests count, because a
// server may refuse a request without treating it as a sign of life. Reads do not count: a follower of ClickHouse
// Keeper serves them without informing the leader, which then expires the session of a client that only reads.
func (c *Connection) keepAlive(interval time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinger = time.AfterFunc(interval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.why != nil {
			return
		}
		if left := interval - time.Since(c.acceptedSent); left > 0 {
			c.pinger.Reset(left)
			return
		}
		c.pings = append(c.pings, time.Now()) // see send
		c.enqueue(wire.PingFrame())
		c.flush()
		c.pinger.Reset(interval)
	})
}

// write writes what callers leave in the queue, until the connection is closed.
func (c *Connection) write() {
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

// OldestSync returns when the oldest unanswered sync was sent; zero if there is none.
func (c *Connection) OldestSync() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.op == wire.OpSync {
			return r.sent
		}
	}
	return time.Time{}
}
