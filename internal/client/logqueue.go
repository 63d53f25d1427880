package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logQueue writes the records of a logger on a separate goroutine. The goroutines that read answers, keep the proof
// fresh and report losses all log; a handler that blocks must not hold up any of them.
type logQueue struct {
	mu      sync.Mutex
	waiting []record
	dropped int
	idle    chan struct{} // closed when nothing is being written
}

type record struct {
	ctx     context.Context //nolint:containedctx // that of the call that logs, for the handler
	handler slog.Handler
	record  slog.Record
}

// maxWaiting is how many records may wait for the handler; beyond that, records are dropped.
const maxWaiting = 1000

func newLogQueue() *logQueue {
	q := &logQueue{idle: make(chan struct{})}
	close(q.idle)
	return q
}

// logger returns a logger that never waits for the handler of log.
func (q *logQueue) logger(log *slog.Logger) *slog.Logger {
	return slog.New(queued{log.Handler(), q})
}

func (q *logQueue) add(r record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == maxWaiting {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, r)
	select {
	case <-q.idle:
		q.idle = make(chan struct{})
		go q.write(q.idle)
	default: // the writing goroutine finds it
	}
}

// write writes records until none is waiting.
func (q *logQueue) write(idle chan struct{}) {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			close(idle)
			q.mu.Unlock()
			return
		}
		r := q.waiting[0]
		q.waiting = q.waiting[1:]
		if q.dropped > 0 {
			r.record = r.record.Clone()
			r.record.AddAttrs(slog.Int("dropped", q.dropped)) // records, because the logger was too slow
			q.dropped = 0
		}
		q.mu.Unlock()
		_ = r.handler.Handle(r.ctx, r.record)
	}
}

// flush waits until everything is written, but not for long: a handler may block forever.
func (q *logQueue) flush() {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(time.Second):
	}
}

// queued is the handler of a logger that never waits.
type queued struct {
	slog.Handler
	queue *logQueue
}

// Handle implements slog.Handler, as do the methods below.
func (h queued) Handle(ctx context.Context, r slog.Record) error {
	h.queue.add(record{ctx, h.Handler, r})
	return nil
}

func (h queued) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queued{h.Handler.WithAttrs(attrs), h.queue}
}

func (h queued) WithGroup(name string) slog.Handler {
	return queued{h.Handler.WithGroup(name), h.queue}
}
