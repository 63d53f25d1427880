package session

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/trace"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Tracers returns the tracers of the client; nil is none.
func (c *Client) Tracers() *trace.Tracers { return c.core.opts.Tracers }

// traced returns the answer function of a request. It tells the tracers first, so that a call that returns has been told.
func traced(ctx context.Context, tracers *trace.Tracers, r request) func(reply, error) {
	return func(answer reply, err error) {
		told := err
		if r.op == wire.OpExists && errors.Is(err, zk.ErrNoNode) {
			told = nil // which is an answer to the question
		}
		at := answer.At
		if at.IsZero() {
			at = time.Now()
		}
		tracers.Request(ctx, zkrecipes.Request{
			Op: wire.OpName(r.op), Path: r.path, Sent: answer.Sent, Took: at.Sub(answer.Sent), Code: codeName(told), Err: told,
		})
		r.answer(answer, err)
	}
}

// codeName returns a short name for the error of a request. There are few, so that each can be a label of a metric.
func codeName(err error) string {
	if err == nil {
		return ""
	}
	for known, name := range codeNames {
		if errors.Is(err, known) {
			return name
		}
	}
	return "other"
}

var codeNames = map[error]string{
	zk.ErrNoNode:                  "no-node",
	zk.ErrNodeExists:              "node-exists",
	zk.ErrBadVersion:              "bad-version",
	zk.ErrNotEmpty:                "not-empty",
	zk.ErrNoAuth:                  "no-auth",
	zk.ErrNoChildrenForEphemerals: "no-children-for-ephemerals",
	zk.ErrInvalidACL:              "invalid-acl",
	zk.ErrBadArguments:            "bad-arguments",
	zk.ErrSessionExpired:          "session-expired",
	zk.ErrSessionMoved:            "session-moved",
	zk.ErrConnectionClosed:        "connection-loss",
	zk.ErrNoServer:                "connection-loss",
	ErrTooLarge:                   "too-large",
	wire.CodeUnimplemented:        "unimplemented",
	wire.CodeQuotaExceeded:        "quota-exceeded",
	wire.CodeThrottled:            "throttled",
	wire.CodeRequestTimeout:       "request-timeout",
	wire.CodeNotReadOnly:          "not-read-only",
}

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
