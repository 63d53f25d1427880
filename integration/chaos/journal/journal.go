// Package journal defines the format in which client processes report their work: one JSON line per event. The stamps
// come from a clock that all processes on the machine share, so the lines form one history.
package journal

import (
	"cmp"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Unknown is a kind of event that package check lacks: the call returned an error that leaves open whether the client
// acquired anything in between.
const Unknown check.Kind = "unknown"

// Orphaned is another such kind: the session of the operation ended before the client was done with it. Its nodes
// disappear when the servers end the session.
const Orphaned check.Kind = "orphaned"

// Viewed is another such kind: the client received a view, or queried it.
const Viewed check.Kind = "viewed"

// Used is another such kind: under the hold of the operation, the client updated what the hold protects.
const Used check.Kind = "used"

// A View is what a client believes about nodes: one node, the members of a group, a cache, or a value.
type View struct {
	Nodes []Node `json:"nodes,omitempty"`
	// Change belongs to caches, which report one change at a time: created, updated or deleted.
	Change string `json:"change,omitempty"`
	// Zxid is the last transaction that the view includes; 0 if unknown.
	Zxid    int64 `json:"zxid,omitempty"`
	Current bool  `json:"current,omitempty"`
	AsOf    int64 `json:"asOf,omitempty"` // on the shared clock
}

// Node is a node in a view. Whatever the view does not contain is zero.
type Node struct {
	Path    string `json:"path"`
	Czxid   int64  `json:"czxid"`
	Mzxid   int64  `json:"mzxid,omitempty"`
	Session int64  `json:"session,omitempty"` // its owner
	Data    []byte `json:"data,omitempty"`
}

// Access is an operation on a register: a node below which no operator deletes. It belongs to Called.
type Access struct {
	Key string `json:"key"`
	How How    `json:"how"`
	// N is what a write adds to the number of the register: 1 to a data version, and the increment to a counter.
	N int64 `json:"n,omitempty"`
	// Data is what a write writes.
	Data string `json:"data,omitempty"`
	// Base is the number that a Swap wants to replace.
	Base int64 `json:"base,omitempty"`
}

// How is the kind of an access, with what it promises.
type How string

// The ways to access a register.
const (
	Get    How = "get"    // a read that is as new as its call
	Look   How = "look"   // a read that is as new as what its client has written or got
	Set    How = "set"    // an unconditional write
	Swap   How = "swap"   // a write over the number Base
	Update How = "update" // a read and a write, with no other write in between
	Held   How = "held"   // the same, by a read and a transaction of a hold
	Add    How = "add"    // a write that adds to a counter
)

// Register is what an access found: the number of the register and its data, after a write or as read. Was is the data
// that an Update or a Held replaced. It belongs to Granted.
type Register struct {
	Number int64  `json:"number"`
	Data   string `json:"data,omitempty"`
	Was    string `json:"was,omitempty"`
}

// Line is one event as it is written.
type Line struct {
	check.Event
	// Access and Register belong to registers.
	Access   *Access   `json:"access,omitempty"`
	Register *Register `json:"register,omitempty"`
	// Session is the client's session when the operation was answered. Holds have none.
	Session int64 `json:"session,omitempty"`
	// Number belongs to Granted: the sum of a counter, or the round of a double barrier.
	Number int64 `json:"number,omitempty"`
	// View belongs to Viewed, and to Granted if the operation returned a view.
	View *View `json:"view,omitempty"`
	// Until belongs to Granted and Lost: the deadline of the hold, and when the loss took effect, on the shared clock.
	Until int64 `json:"until,omitempty"`
	// Stalled belongs to Lost: at some time between the loss and the report, the machine did not run the process.
	Stalled bool `json:"stalled,omitempty"`
	// Stuck belongs to Granted: by order, the hold lasts until it is lost or until the next order.
	Stuck bool `json:"stuck,omitempty"`
	// Reason belongs to Lost, Failed and Unknown.
	Reason string `json:"reason,omitempty"`
	// Path of the contender belongs to Granted.
	Path string `json:"path,omitempty"`
}

// At converts t to the shared clock.
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

// View writes a view that belongs to no operation, stamped now.
func (w *Writer) View(v View) {
	(&Op{writer: w}).View(v)
}

// Op is one operation that has begun.
type Op struct {
	writer *Writer
	number int64
}

// Call records that the client is about to acquire.
func (w *Writer) Call(weight int, read bool) *Op {
	return w.call(Line{Event: check.Event{Kind: check.Called, Weight: weight, Read: read}})
}

// Access records that the client is about to access a register. A Held access carries the token of its hold.
func (w *Writer) Access(a Access, token zkrecipes.Token) *Op {
	return w.call(Line{Event: check.Event{Kind: check.Called, Weight: 1, Token: token}, Access: &a})
}

func (w *Writer) call(l Line) *Op {
	w.mu.Lock()
	w.op++
	op := &Op{w, w.op}
	w.mu.Unlock()
	op.Tell(l)
	return op
}

// View writes a view that resulted from the operation, stamped now.
func (o *Op) View(v View) {
	o.Tell(Line{Event: check.Event{Kind: Viewed}, View: &v})
}

// Tell writes a line about the operation, stamped now.
func (o *Op) Tell(l Line) {
	w := o.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Client, l.Op, l.At = w.client, o.number, cmp.Or(l.At, Now())
	_ = w.out.Encode(l) // fails if the reader is gone, and then no line is needed
}
