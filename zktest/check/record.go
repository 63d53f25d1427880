package check

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes"
)

// Kind is what an [Event] reports.
type Kind string

// The kinds of events.
const (
	// Called means that the caller is about to make the call.
	Called Kind = "called"
	// Granted means that the call returned a hold.
	Granted Kind = "granted"
	// Failed means that the call returned without a hold.
	Failed Kind = "failed"
	// Released means that the holder is about to release.
	Released Kind = "released"
	// Lost means that the holder learned that its hold was lost.
	Lost Kind = "lost"
)

// Event is one step of one operation. It survives a round trip through encoding/json, so that you can assemble
// histories from the logs of several processes.
type Event struct {
	Kind   Kind   `json:"kind"`
	Client string `json:"client"`
	// Op is the number of the operation, unique for its client.
	Op int64 `json:"op"`
	// At is the stamp: a position in the order of all events, or a time in nanoseconds on a clock that all processes
	// share.
	At int64 `json:"at"`
	// Weight is how much of the limit is requested; Read marks the shared side of a read-write lock. Both are set only for
	// Called.
	Weight int  `json:"weight,omitempty"`
	Read   bool `json:"read,omitempty"`
	// Token is set only for Granted.
	Token zkrecipes.Token `json:"token,omitempty"`
}

// Recorder collects the events of one process. Its zero value is ready to use, and it is safe for concurrent use.
type Recorder struct {
	// Now returns the next stamp. The default is a counter, which orders all events of this Recorder without ties. If you
	// merge the histories of several processes, set Now to a clock that never goes back and that all of them share, such
	// as CLOCK_MONOTONIC on one machine. It must not call the recorder.
	Now func() int64
	// Emit receives every event immediately, one at a time, so that a process's history is not lost if it is killed. By
	// default events are not emitted.
	Emit func(Event)

	op atomic.Int64

	mu     sync.Mutex
	stamp  int64 // the newest, if Now is nil
	events []Event
	held   map[*Op]Held // the arguments of GrantedHold, until their end is recorded
}

// Held is a hold that a recorder can query, such as a [*zkrecipes.Hold].
type Held interface {
	// Token returns the fencing token.
	Token() zkrecipes.Token
	// Err returns nil while the hold is held. It must not call the recorder, not even through a tracer.
	Err() error
}

// Op is an operation being recorded: it is called, then either granted or failed, and then released or lost.
type Op struct {
	rec    *Recorder
	client string
	number int64
}

// Call records that client is about to request weight: 1 for a mutex or a write lock, n for a semaphore. A client is a
// single caller: whatever it acquires while it holds something is considered nested (see [ReadWrite]).
func (r *Recorder) Call(client string, weight int) *Op {
	return r.call(Event{Client: client, Weight: weight})
}

// CallRead records that client is about to request a read lock.
func (r *Recorder) CallRead(client string) *Op {
	return r.call(Event{Client: client, Weight: 1, Read: true})
}

// GrantedHold records that h was granted. Call it when the acquisition returns. Before the recorder stamps the grant,
// it checks whether any hold passed to it earlier has ended, and if so, records that. As a result, it doesn't matter if
// the goroutine of that hold is late to call Lost.
func (o *Op) GrantedHold(h Held) {
	r := o.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, its := range r.held {
		switch err := its.Err(); {
		case errors.Is(err, zkrecipes.ErrReleased):
			other.record(Event{Kind: Released})
		case err != nil:
			other.record(Event{Kind: Lost})
		}
	}
	o.record(Event{Kind: Granted, Token: h.Token()})
	if r.held == nil {
		r.held = make(map[*Op]Held)
	}
	r.held[o] = h
}

// Granted records the grant of something that is not a [Held], such as another library's lock. Call it when the
// acquisition returns.
func (o *Op) Granted(token zkrecipes.Token) { o.add(Event{Kind: Granted, Token: token}) }

// Failed records that the acquisition returned an error.
func (o *Op) Failed() { o.add(Event{Kind: Failed}) }

// Released records the release. Call it before the release begins.
func (o *Op) Released() { o.add(Event{Kind: Released}) }

// Lost records that the hold reported its loss, even if it did so in answer to a release. If several ends are recorded
// for a hold, it ends with the first, and is lost if any of them is a loss.
func (o *Op) Lost() { o.add(Event{Kind: Lost}) }

// Events returns the events recorded so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Holds returns the holds recorded so far.
//
// Errors: the same as for the function [Holds].
func (r *Recorder) Holds() ([]Hold, error) { return Holds(r.Events()) }

func (r *Recorder) call(e Event) *Op {
	op := &Op{rec: r, client: e.Client, number: r.op.Add(1)}
	e.Kind = Called
	op.add(e)
	return op
}

func (o *Op) add(e Event) {
	o.rec.mu.Lock()
	defer o.rec.mu.Unlock()
	o.record(e)
}

// record requires that the recorder's mu is held.
func (o *Op) record(e Event) {
	e.Client, e.Op, e.At = o.client, o.number, o.rec.now()
	o.rec.events = append(o.rec.events, e)
	if e.Kind == Released || e.Kind == Lost {
		delete(o.rec.held, o)
	}
	if o.rec.Emit != nil {
		o.rec.Emit(e) // under the lock, because lines of a log must not mix
	}
}

// now requires that mu is held.
func (r *Recorder) now() int64 {
	if r.Now != nil {
		return r.Now()
	}
	r.stamp++
	return r.stamp
}
