package zktest

import (
	"encoding/binary"
	"sync"
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

// maxLate bounds the bytes of the waiting requests of one connection. Further ones stay in the socket.
const maxLate = 4 << 20

// lateFrame is a waiting request.
type lateFrame struct {
	frame []byte
	first bool
	due   time.Time
}

// size returns the number of bytes that the request takes while it waits. Most requests are small.
func (f lateFrame) size() int { return len(f.frame) + 64 }

// lateQueue serves the frames of one connection in order, when they are due. Requests that arrive together wait
// together, so a client that does not wait for replies is as fast as without latency.
type lateQueue struct {
	mu      sync.Mutex
	changed *sync.Cond
	frames  []lateFrame
	size    int
	closed  bool // nothing more is put
	ended   bool // nothing more is served
}

func newLateQueue(c *conn) *lateQueue {
	q := new(lateQueue)
	q.changed = sync.NewCond(&q.mu)
	go q.serve(c)
	return q
}

func (q *lateQueue) serve(c *conn) {
	defer q.set(&q.ended)
	for {
		f, ok := q.take()
		if !ok || !c.Pause(time.Until(f.due)) || !c.Thawed() || !c.process(f.frame, f.first) {
			return
		}
		c.Wake()
	}
}

// put queues a frame, once there is room. It returns false if nothing more is served.
func (q *lateQueue) put(f lateFrame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended && len(q.frames) > 0 && q.size+f.size() > maxLate {
		q.changed.Wait()
	}
	q.frames = append(q.frames, f)
	q.size += f.size()
	q.changed.Broadcast()
	return !q.ended
}

// take returns the next frame, or false after the last.
func (q *lateQueue) take() (f lateFrame, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && len(q.frames) == 0 {
		q.changed.Wait()
	}
	if len(q.frames) == 0 {
		return lateFrame{}, false
	}
	f = q.frames[0]
	q.frames[0] = lateFrame{}
	q.frames = q.frames[1:]
	q.size -= f.size()
	q.changed.Broadcast()
	return f, true
}

// finish waits until all frames have been served, or the connection has ended.
func (q *lateQueue) finish() {
	q.set(&q.closed)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended {
		q.changed.Wait()
	}
}

func (q *lateQueue) set(state *bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*state = true
	q.changed.Broadcast()
}
