// Package journal is what client processes tell of their work: one JSON line per event, stamped with a clock that all
// processes on the machine share, so that their lines can be put together into one history.
package journal

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Unknown is the kind of an event that check does not know: the call has returned an error that does not say whether
// anything was acquired in between.
const Unknown check.Kind = "unknown"

// Orphaned is the kind of another: the session of the operation was over when the client was done with it. What was to be
// removed then goes when the servers end the session.
const Orphaned check.Kind = "orphaned"

// Line is one event as it is written.
type Line struct {
	check.Event
	// Until goes with Granted and Lost: the deadline of the hold, and when the loss took effect, on the shared clock.
	Until int64 `json:"until,omitempty"`
	// Stuck goes with Granted: the hold was ordered to last until it is lost or called off.
	Stuck bool `json:"stuck,omitempty"`
	// Reason goes with Lost, Failed and Unknown.
	Reason string `json:"reason,omitempty"`
	// Path of the contender goes with Granted.
	Path string `json:"path,omitempty"`
}

// At is the place of t on the shared clock.
func At(t time.Time) int64 { return Now() - int64(time.Since(t)) }

// Writer writes the lines of one client. It is safe for concurrent use.
type Writer struct {
	client string

	mu  sync.Mutex
	out *json.Encoder
	op  int64
}

// NewWriter returns a writer of lines for client.
func NewWriter(out io.Writer, client string) *Writer {
	return &Writer{client: client, out: json.NewEncoder(out)}
}

// Op is one operation on its way.
type Op struct {
	writer *Writer
	number int64
}

// Call tells that the client is about to ask.
func (w *Writer) Call(weight int, read bool) *Op {
	w.mu.Lock()
	w.op++
	op := &Op{w, w.op}
	w.mu.Unlock()
	op.Tell(Line{Event: check.Event{Kind: check.Called, Weight: weight, Read: read}})
	return op
}

// Tell writes a line about the operation, stamped now.
func (o *Op) Tell(l Line) {
	w := o.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Client, l.Op, l.At = w.client, o.number, Now()
	_ = w.out.Encode(l) // a reader that is gone has no use for it
}
