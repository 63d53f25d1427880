package transport

import (
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// outbox is the queue of bytes to write. Its lock is only held while copying.
type outbox struct {
	mu      sync.Mutex
	chunks  []chunk
	spare   []byte
	deaf    bool          // no further bytes are accepted
	closed  bool          // the writer ends after the queued bytes
	ready   chan struct{} // wakes the writer
	unread  int           // number of bytes that are queued or being written
	drained chan struct{} // closed when unread falls to maxUnread; nil while the reading goroutine does not wait

	// writing is held from before bytes are taken until they are written. Only the writing goroutine waits for it.
	writing sync.Mutex
}

// A Hold blocks the writing goroutine until the bytes behind it may be written. It returns false if the connection
// ended first.
type Hold func() bool

// chunk is a run of frames that is written at once, after the hold on it, if any, has ended.
type chunk struct {
	hold Hold
	data []byte
}

// Queue queues one frame, which fill writes, behind a hold if there is one. It returns false if nothing more is
// accepted. The caller makes sure that the frame is written, by calling Wake or Answer.
func (o *outbox) Queue(hold Hold, fill func(*proto.Encoder)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf {
		return false
	}
	if len(o.chunks) == 0 || hold != nil {
		o.chunks = append(o.chunks, chunk{hold: hold, data: o.spare[:0]})
		o.spare = nil
	}
	last := &o.chunks[len(o.chunks)-1]
	e := proto.Encoder{B: last.data}
	start := e.Begin()
	fill(&e)
	e.End(start)
	o.unread += len(e.B) - len(last.data)
	last.data = e.B
	return true
}

// QueueText queues bytes that are not a frame.
func (o *outbox) QueueText(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.deaf {
		o.chunks = append(o.chunks, chunk{data: []byte(text)})
		o.unread += len(text)
		o.Wake()
	}
}

// take returns the queued chunks, and whether the queue is closed. It reuses the buffer of the previous take. The
// caller holds writing.
func (o *outbox) take(used []chunk) ([]chunk, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(used) == 1 {
		o.reuse(used[0].data)
	}
	chunks := o.chunks
	o.chunks = nil
	return chunks, o.closed
}

// writeNow writes the queued bytes with a function that does not block and returns the number of bytes written. It
// leaves the remaining bytes to the writing goroutine. It leaves all of them while that goroutine writes, if some must
// wait, and at the end of the connection.
func (o *outbox) writeNow(write func([]byte) int) {
	if !o.writing.TryLock() {
		o.Wake()
		return
	}
	defer o.writing.Unlock()
	data := o.takeNow()
	if data == nil {
		return
	}
	n := write(data)
	o.wrote(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	if n == len(data) {
		o.reuse(data)
		return
	}
	o.chunks = slices.Insert(o.chunks, 0, chunk{data: data[n:]})
	o.Wake()
}

// takeNow returns the queued bytes if they can be written at once. Otherwise it wakes the writing goroutine.
func (o *outbox) takeNow() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) != 1 || o.chunks[0].hold != nil || o.closed {
		o.Wake()
		return nil
	}
	data := o.chunks[0].data
	o.chunks = o.chunks[:0]
	return data
}

func (o *outbox) reuse(buf []byte) {
	if cap(buf) <= 1<<16 {
		o.spare = buf
	}
}

// maxUnread is how many bytes of replies a connection may leave unread before the server stops reading its requests.
// Otherwise a client that sends requests without reading could exhaust the memory.
const maxUnread = 4 << 20

// Full returns a channel that is closed when there is room for the next reply, or nil if there is room now.
func (o *outbox) Full() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unread <= maxUnread {
		return nil
	}
	if o.drained == nil {
		o.drained = make(chan struct{})
	}
	return o.drained
}

// Unread returns the number of bytes that the peer has not accepted.
func (o *outbox) Unread() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread
}

// wrote records bytes that the peer's buffers have accepted.
func (o *outbox) wrote(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unread -= n
	if o.drained != nil && o.unread <= maxUnread {
		close(o.drained)
		o.drained = nil
	}
}

// Deafen makes the queue drop further bytes. The connection stays open.
func (o *outbox) Deafen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf = true
}

// seal ends the queue. The connection ends when the queued bytes have been written.
func (o *outbox) seal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf, o.closed = true, true
	o.Wake()
}

// sealed reports whether the queue has ended.
func (o *outbox) sealed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// Wake makes the writing goroutine write what is queued.
func (o *outbox) Wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}
