package zktest

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// latency is how long requests wait before they are served.
type latency struct{ all, writes atomic.Int64 }

// SetLatency delays every request before it is served, as on a long network path; see [WithLatency].
func (s *Server) SetLatency(d time.Duration) { s.latency.all.Store(int64(d)) }

// SetWriteLatency delays writes before they are applied, as on a slow disk; see [WithWriteLatency].
func (s *Server) SetWriteLatency(d time.Duration) { s.latency.writes.Store(int64(d)) }

// of returns how long a frame waits. The first frame of a connection is the handshake, which writes a session.
func (l *latency) of(frame []byte, first bool) time.Duration {
	d := l.all.Load()
	if writes := l.writes.Load(); writes > 0 {
		if first || len(frame) >= 8 && proto.Op(int32(binary.BigEndian.Uint32(frame[4:]))).Writes() {
			d += writes
		}
	}
	return time.Duration(d)
}

// maxLate bounds the waiting requests of one connection. Further ones stay in the socket.
const maxLate = 128

// lateFrame is a waiting request.
type lateFrame struct {
	frame []byte
	first bool
	due   time.Time
}

// lateQueue serves the frames of one connection in order, when they are due. Requests that arrive together wait
// together, so a client that does not wait for replies is as fast as without latency.
type lateQueue struct {
	frames chan lateFrame
	ended  chan struct{}
}

func newLateQueue(c *conn) *lateQueue {
	q := &lateQueue{frames: make(chan lateFrame, maxLate), ended: make(chan struct{})}
	go q.serve(c)
	return q
}

func (q *lateQueue) serve(c *conn) {
	defer close(q.ended)
	for f := range q.frames {
		if !c.Pause(time.Until(f.due)) || !c.Thawed() || !c.process(f.frame, f.first) {
			return
		}
		c.Wake()
	}
}

// put queues a frame. It returns false if nothing more is served.
func (q *lateQueue) put(f lateFrame) bool {
	select {
	case q.frames <- f:
		return true
	case <-q.ended:
		return false
	}
}

// finish waits until all frames have been served, or the connection has ended.
func (q *lateQueue) finish() {
	close(q.frames)
	<-q.ended
}
