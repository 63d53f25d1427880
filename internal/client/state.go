package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

type event int

const (
	established  event = iota // a server has given us the session, new or resumed
	disconnected              // the connection of a session is gone
	ended                     // the session has ended
	closed                    // the user closed the client
)

// next is the whole state machine. It gets no events from sessions that have ended.
func next(s zkrecipes.State, e event) zkrecipes.State {
	switch {
	case s == zkrecipes.Closed || e == closed:
		return zkrecipes.Closed
	case e == established:
		return zkrecipes.Connected
	case e == disconnected && s == zkrecipes.Connected:
		return zkrecipes.Suspended
	case e == ended && (s == zkrecipes.Connected || s == zkrecipes.Suspended):
		return zkrecipes.Lost
	default:
		return s
	}
}

// stateLog is the list of all transitions. A reader keeps its place in it, so a slow reader misses nothing. Transitions
// that all readers have passed are garbage.
type stateLog struct {
	mu   sync.Mutex
	last *transition
}

type transition struct {
	state           zkrecipes.State
	at              time.Time
	lifetime.Report               // that of the session at the time
	after           chan struct{} // closed once next is set
	next            *transition
}

func newStateLog() *stateLog {
	return &stateLog{last: &transition{state: zkrecipes.Connecting, at: time.Now(), after: make(chan struct{})}}
}

// apply applies the event e to the state, and returns the states before and after, which are the same if it did not
// change.
func (l *stateLog) apply(e event, in lifetime.Report) (from, to *transition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = l.last
	state := next(from.state, e)
	if state == from.state {
		return from, from
	}
	to = &transition{state: state, at: time.Now(), Report: in, after: make(chan struct{})}
	from.next = to
	close(from.after)
	l.last = to
	return from, to
}

func (l *stateLog) current() *transition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *stateLog) all(ctx context.Context) iter.Seq[zkrecipes.State] {
	if ctx == nil { // no error can report it
		panic(fmt.Errorf("states: %w", session.ErrNoContext))
	}
	return func(yield func(zkrecipes.State) bool) {
		for t := l.current(); ctx.Err() == nil && yield(t.state) && t.state != zkrecipes.Closed; t = t.next {
			select {
			case <-t.after:
			case <-ctx.Done():
				return
			}
		}
	}
}

// traceStates reports every state change to the tracers, in order, until the client is closed.
func (c *core) traceStates(from *transition) {
	for from.state != zkrecipes.Closed {
		<-from.after
		to := from.next
		c.opts.Tracers.State(zkrecipes.StateChange{
			From: from.state, To: to.state, At: to.at, Lasted: to.at.Sub(from.at),
			Server: to.Server, Session: to.Session, Timeout: to.Timeout, Err: to.Err,
		})
		from = to
	}
}
