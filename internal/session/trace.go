package session

import (
	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/trace"
)

// Tracers returns the tracers of the client; nil is none.
func (c *Client) Tracers() *trace.Tracers { return c.core.opts.Tracers }

// traceStates tells the tracers of every change of the state, in their order, until the client is closed.
func (c *core) traceStates(from *transition) {
	for from.state != Closed {
		<-from.after
		to := from.next
		c.opts.Tracers.State(zkrecipes.StateChange{
			From: from.state, To: to.state, At: to.at, Lasted: to.at.Sub(from.at),
			Server: to.Server, Session: to.Session, Timeout: to.Timeout, Err: to.Err,
		})
		from = to
	}
}
