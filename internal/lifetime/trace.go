package lifetime

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/trace"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// traced returns a function for Request.Done. The function notifies the tracers first, so that they have been notified
// by the time a call returns.
func traced(ctx context.Context, tracers *trace.Tracers, r Request) func(link.Reply, error) {
	return func(got link.Reply, err error) {
		reported := err
		switch {
		case r.Op == wire.OpExists && errors.Is(err, zk.ErrNoNode):
			reported = nil // that is an answer to the question
		case r.Op == wire.OpMulti && err == nil:
			reported = wire.ErrorOf(wire.MultiCode(got.Body))
		}
		if r.barrier && errors.Is(reported, zk.ErrNoAuth) {
			reported = nil // no permission to read the root, but a quorum has agreed: see BarrierRequest
		}
		at := got.At
		if at.IsZero() {
			at = time.Now()
		}
		tracers.Request(ctx, zkrecipes.Request{
			Op: wire.OpName(r.Op), Path: r.Path, Sent: got.Sent, Took: at.Sub(got.Sent), Code: codeName(reported), Err: reported,
		})
		r.Done(got, err)
	}
}

// attempt is one attempt to connect.
type attempt struct {
	server  Server
	began   time.Time
	limit   time.Duration
	dialed  bool // whether the client has tried to open a connection; it begins a SASL exchange before
	reached bool // whether a connection was opened
}

// outcome returns the word for how the attempt ended.
func (a *attempt) outcome(took time.Duration, err error) string {
	switch {
	case err == nil:
		return "connected"
	case errors.Is(err, errExpired):
		return "expired"
	case errors.Is(err, zkrecipes.ErrAuthFailed), errors.Is(err, errStale):
		return "refused"
	case took >= a.limit:
		return "timeout"
	case a.dialed && !a.reached:
		return "unreachable"
	default:
		return "failed"
	}
}

// traceConnect notifies the tracers of how an attempt ended.
func (l *Lifetime) traceConnect(a *attempt, err error) {
	if !l.opts.Tracers.ObserveConnects() {
		return
	}
	took := time.Since(a.began)
	l.opts.Tracers.Connect(zkrecipes.Connect{
		Server: a.server.String(), Began: a.began, Took: took, Outcome: a.outcome(took, err), Err: err,
	})
}

// codeName returns a short name for the error of a request. There are few names, so that they can serve as metric
// labels.
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
	zkrecipes.ErrTooLarge:         "too-large",
	zkrecipes.CodeUnimplemented:   "unimplemented",
	zkrecipes.CodeQuotaExceeded:   "quota-exceeded",
	zkrecipes.CodeThrottled:       "throttled",
	zkrecipes.CodeRequestTimeout:  "request-timeout",
	zkrecipes.CodeNotReadOnly:     "not-read-only",
	zkrecipes.CodeLocalSession:    "local-session",
	zkrecipes.CodeNeedsSASL:       "needs-sasl",
}
