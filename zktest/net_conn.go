package zktest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/request"
	"github.com/zkrecipes/zkrecipes/zktest/internal/transport"
)

// conn is the server's side of one connection. One goroutine reads and handles requests, and one writes the queue. The
// reading goroutine also writes whatever can be written without blocking, which saves a switch between the two. No
// goroutine waits for a peer while it holds a lock that another one waits for.
type conn struct {
	s  *Server
	nc net.Conn

	*transport.Conn
	behind <-chan struct{} // closed when the front has caught up with the last write; owned by the serving goroutine

	// Guarded by Server.mu.
	*ensemble.Client
	dead bool // removed from the server's tables; no further request is handled
	mute mute
	late lateEvents
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc}
	c.Conn = transport.New(nc, &s.thaw, s.done, c.end)
	return c
}

// showCertificate adds the identity in the client's certificate. The TLS handshake is over. The caller holds Server.mu.
func (c *conn) showCertificate() {
	secured, ok := c.nc.(*tls.Conn)
	if !ok || !c.s.cfg.Access.X509 {
		return
	}
	if chain := secured.ConnectionState().PeerCertificates; len(chain) > 0 {
		c.IdentifyBy(chain[0])
	}
}

// Event queues an event. The caller holds Server.mu.
func (c *conn) Event(zxid int64, ev proto.Event, path string) {
	c.sendEvent(func(e *proto.Encoder) {
		e.Int32(proto.XidNotification)
		e.Int64(zxid)
		e.Int32(0)
		e.Int32(int32(ev))
		e.Int32(3) // SyncConnected
		e.Str(path)
	})
}

// Kick ends the connection after everything that is queued. The caller holds Server.mu.
func (c *conn) Kick() { c.s.release(c, transport.Kick) }

// Cut ends the connection at once. The caller holds Server.mu.
func (c *conn) Cut() { c.s.release(c, transport.Abrupt) }

// mute ends a connection that sends no handshake. It is guarded by Server.mu.
type mute struct {
	stop  func()
	until time.Time // zero once a handshake has arrived
}

// startMute starts the time limit for the handshake of a connection, or starts it again.
func (s *Server) startMute(c *conn) {
	if c.mute.stop != nil {
		c.mute.stop()
	}
	c.mute.until = time.Now().Add(request.HandshakeLimit)
	c.mute.stop = s.after(request.HandshakeLimit, func() {
		if !c.dead && !s.frozen && !c.mute.until.IsZero() && !time.Now().Before(c.mute.until) {
			s.release(c, transport.Abrupt)
		}
	})
}

func (c *conn) endMute() {
	c.s.lock()
	defer c.s.unlock()
	c.mute.stop()
	c.mute.until = time.Time{}
}

// send queues one frame, which fill writes. The caller holds Server.mu.
func (c *conn) send(fill func(*proto.Encoder)) { c.sendAfter(nil, fill) }

func (c *conn) sendAfter(hold transport.Hold, fill func(*proto.Encoder)) {
	c.queue(hold, fill)
	c.Wake()
}

// queue is like sendAfter, but the caller makes sure that the frame is written.
func (c *conn) queue(hold transport.Hold, fill func(*proto.Encoder)) {
	if c.Queue(hold, fill) {
		c.Sent++
		c.s.state.Sent++
	}
}

// read is the reading goroutine, which handles one request after another.
func (c *conn) read() {
	defer c.end()
	// The first read of a TLS connection also answers the client's handshake.
	if _, secured := c.nc.(*tls.Conn); secured && !c.Pass() {
		return
	}
	r := bufio.NewReaderSize(c.nc, 1<<14)
	var frame []byte
	var late *lateQueue
	defer func() {
		if late != nil {
			late.finish()
		}
	}()
	for first := true; ; first = false {
		var word string
		if first {
			word = request.PeekWord(r)
		}
		var err error
		if word == "" {
			frame, err = transport.ReadFrame(r, frame, c.s.cfg.MaxBuffer)
		}
		if !c.PassIn() {
			break
		}
		if word != "" {
			c.answerWord(word, r)
			break
		}
		if err != nil {
			return
		}
		wait := c.s.latency.of(frame, first)
		if wait > 0 && late == nil {
			late = newLateQueue(c)
		}
		if late == nil {
			if !c.process(frame, first) {
				break
			}
			c.Answer(r.Buffered() > 0)
		} else if !late.put(lateFrame{slices.Clone(frame), first, time.Now().Add(wait)}) {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r) // the queue, or the answer to a four-letter word, may not have been written yet
}

// process serves one frame, once there is room for the reply. It returns false if there is nothing more to serve.
func (c *conn) process(frame []byte, first bool) bool {
	if room := c.Full(); room != nil && !c.Await(room) {
		return false
	}
	if c.behind != nil {
		if !c.Await(c.behind) || !c.Thawed() {
			return false
		}
		c.behind = nil
	}
	if first {
		c.endMute()
		return c.handshake(frame)
	}
	return c.handle(frame)
}

// end ends the connection when one of its goroutines fails. A connection that is being flushed continues, because a
// peer that has closed its direction may still read.
func (c *conn) end() {
	c.s.lock()
	defer c.s.unlock()
	if !c.dead {
		c.s.release(c, transport.Abrupt)
	}
}

// release removes a connection from the server's tables and makes its goroutines end. The caller holds Server.mu.
func (s *Server) release(c *conn, how transport.Ending) {
	if !c.dead {
		c.dead = true
		c.mute.stop()
		c.late.end()
		c.Leave()
	}
	c.End(how)
}

// answerWord answers a four-letter word and closes the connection.
func (c *conn) answerWord(word string, r io.Reader) {
	ask, err := request.ReadWord(word, r, c.s.cfg.words, c.s.cfg.ReadOnly)
	if err != nil {
		return
	}
	c.s.lock()
	defer c.s.unlock()
	if c.dead {
		return
	}
	c.Received++
	c.s.state.Received++
	c.QueueText(ask(c.Front))
	c.s.release(c, transport.Flush)
}
