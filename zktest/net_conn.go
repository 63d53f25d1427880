package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/request"
)

// conn is the server's side of one connection. One goroutine reads and handles requests, and one writes the queue. The
// first also writes what needs no waiting, which saves a switch between the two. No goroutine waits for a peer while it
// holds a lock that another one waits for.
type conn struct {
	s  *Server
	nc net.Conn

	in, out gate            // closed while the direction is stalled
	behind  <-chan struct{} // ends when the front has caught up with the last write; of the goroutine that serves
	gone    chan struct{}   // closed when no further request is handled and no reply is held back
	severed chan struct{}   // closed when no further byte is written

	// Guarded by Server.mu.
	*ensemble.Client
	dead bool // out of the server's tables; no further request is handled
	mute mute

	outbox outbox
	now    func(p []byte) int // writes without waiting, see nowWriter; nil if nc cannot
}

// Ways to end a connection.
type ending int

const (
	flush  ending = iota // queued bytes are written first, held replies included
	kick                 // queued bytes are written first, up to the first held reply
	abrupt               // what is queued is lost
)

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{
		s: s, nc: nc, gone: make(chan struct{}), severed: make(chan struct{}),
		outbox: outbox{ready: make(chan struct{}, 1)}, now: nowWriter(nc),
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

// Kick ends the connection behind what is queued. The caller holds Server.mu.
func (c *conn) Kick() { c.s.release(c, kick) }

// Cut ends the connection at once. The caller holds Server.mu.
func (c *conn) Cut() { c.s.release(c, abrupt) }

// mute ends a connection that sends no handshake. It is guarded by Server.mu.
type mute struct {
	timer *time.Timer
	until time.Time // zero once a handshake has come
}

// startMute gives a connection its time for the handshake, from now on.
func (s *Server) startMute(c *conn) {
	c.mute.until = time.Now().Add(request.HandshakeLimit)
	if c.mute.timer != nil {
		c.mute.timer.Reset(request.HandshakeLimit)
		return
	}
	c.mute.timer = time.AfterFunc(request.HandshakeLimit, func() {
		s.lock()
		defer s.unlock()
		if !c.dead && !s.frozen && !c.mute.until.IsZero() && !time.Now().Before(c.mute.until) {
			s.release(c, abrupt)
		}
	})
}

func (c *conn) endMute() {
	c.s.lock()
	defer c.s.unlock()
	c.mute.timer.Stop()
	c.mute.until = time.Time{}
}

// send queues one frame, which fill writes, behind a hold if there is one. The caller holds Server.mu.
func (c *conn) send(fill func(*proto.Encoder)) { c.sendAfter(nil, fill) }

func (c *conn) sendAfter(hold <-chan struct{}, fill func(*proto.Encoder)) {
	c.queue(hold, fill)
	c.outbox.wake()
}

// queue is sendAfter for a caller that sees to the writing.
func (c *conn) queue(hold <-chan struct{}, fill func(*proto.Encoder)) {
	if c.outbox.put(hold, fill) {
		c.Sent++
		c.s.state.Sent++
	}
}

// answer writes what the reading goroutine has queued, if that needs no waiting. If more requests are there already, it
// leaves that to the writing goroutine, which writes several replies at once.
func (c *conn) answer(more bool) {
	if more || c.now == nil || !c.out.open() || !c.s.thaw.open() {
		c.outbox.wake()
	} else {
		c.outbox.writeNow(c.now)
	}
}

// write is the writing goroutine. It closes the socket when the connection has ended. If the direction is stalled it
// waits with that, because no packet could tell the peer.
func (c *conn) write() {
	c.writeQueue()
	c.out.pass(c.s.done)
	_ = c.nc.Close() // the connection is over either way
}

func (c *conn) writeQueue() {
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
		case <-c.severed:
			return
		}
	}
}

// writeChunks returns false if the connection has ended.
func (c *conn) writeChunks(chunks []chunk, last bool) bool {
	for _, x := range chunks {
		if x.hold != nil && !c.await(x.hold) || !c.out.pass(c.severed) || !c.s.thaw.pass(c.severed) {
			return false
		}
		if last && !c.linger() {
			return false
		}
		if _, err := c.nc.Write(x.data); err != nil {
			c.end()
			return false
		}
		c.outbox.wrote(len(x.data))
	}
	return true
}

// await waits for the channel; false means that the connection ended first.
func (c *conn) await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-c.gone:
		return false
	}
}

// pause waits for a time; false means that the connection ended first.
func (c *conn) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	}
}

// read is the reading goroutine: it handles one request after the other.
func (c *conn) read() {
	defer c.end()
	r := bufio.NewReaderSize(c.nc, 1<<14)
	var frame []byte
	var late *lateQueue
	defer func() {
		if late != nil {
			late.finish()
		}
	}()
	for first := true; ; first = false {
		var err error
		frame, err = readFrame(r, frame, c.s.cfg.maxBuffer, first)
		if !c.in.pass(c.gone) || !c.s.thaw.pass(c.gone) {
			break
		}
		var word fourLetterWord
		if errors.As(err, &word) {
			c.answerWord(string(word), r)
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
			c.answer(r.Buffered() > 0)
		} else if !late.put(lateFrame{slices.Clone(frame), first, time.Now().Add(wait)}) {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r) // the queue may not be written yet, or the answer to a four-letter word
}

// process serves one frame, once there is room for the reply; false means that nothing more is to be served.
func (c *conn) process(frame []byte, first bool) bool {
	if room := c.outbox.full(); room != nil && !c.await(room) {
		return false
	}
	if c.behind != nil {
		if !c.await(c.behind) {
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

// fourLetterWord is returned in place of the first frame if an administrator's question comes.
type fourLetterWord string

func (w fourLetterWord) Error() string { return "four letter word " + string(w) }

// readFrame reads one frame into buf. The buffer grows with the bytes that arrive, not with the announced length.
func readFrame(r *bufio.Reader, buf []byte, limit int, first bool) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return buf, err
	}
	if first && request.IsWord(head) {
		return buf, fourLetterWord(head)
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < 0 || n > limit {
		return buf, errors.New("length of frame out of bounds")
	}
	_, _ = r.Discard(4)
	if cap(buf) > 1<<16 {
		buf = nil // thousands of connections must not each keep their largest request
	}
	buf = buf[:0]
	for len(buf) < n {
		start, step := len(buf), min(n-len(buf), max(1<<14, len(buf)))
		buf = append(buf, make([]byte, step)...)
		if _, err := io.ReadFull(r, buf[start:]); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// end ends the connection when one of its goroutines fails. A connection that is being flushed goes on, because a peer
// that has closed its direction may still read.
func (c *conn) end() {
	c.s.lock()
	defer c.s.unlock()
	if !c.dead {
		c.s.release(c, abrupt)
	}
}

// release takes a connection out of the server's tables and makes its goroutines end. The caller holds Server.mu.
func (s *Server) release(c *conn, how ending) {
	if !c.dead {
		c.dead = true
		c.mute.timer.Stop()
		c.Leave()
	}
	c.outbox.close()
	if how != flush {
		closeOnce(c.gone)
	}
	if how == abrupt && closeOnce(c.severed) {
		_ = c.nc.SetDeadline(time.Unix(1, 0)) // ends a read or write that is under way
	} else if how != abrupt {
		c.linger()
	}
}

// lingerLimit is how long the last bytes may take to a peer that does not read.
const lingerLimit = 10 * time.Second

// linger gives the last bytes their time, unless the connection is cut. It looks at that after it has set the deadline,
// since release sets one in the past after it has closed the channel.
func (c *conn) linger() bool {
	_ = c.nc.SetWriteDeadline(time.Now().Add(lingerLimit)) // a broken connection fails at the write
	select {
	case <-c.severed:
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0))
		return false
	default:
		return true
	}
}

// closeOnce closes a channel, unless it is closed. The caller holds Server.mu.
func closeOnce(ch chan struct{}) bool {
	select {
	case <-ch:
		return false
	default:
		close(ch)
		return true
	}
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
	c.outbox.putText(ask(c.Front))
	c.s.release(c, flush)
}
