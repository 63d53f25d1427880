package zkrecipes

import (
	"context"
	"errors"
	"time"
)

// Tracer observes a client, its recipes and their holds. Pass one or more to the option conn.WithTracer. Nil hooks
// are not called. The modules zkprom (metrics) and zkotel (traces) provide ready-made tracers.
//
// Hooks are called inline with the library's own work, on callers' goroutines and on the goroutines that read answers
// and report losses. A hook must therefore return quickly, must not panic, and must not call the client, a recipe or a
// hold: while it blocks, no answers are read, and a lock may be lost. The library holds none of its own locks while it
// calls a hook. Because hooks for different acquisitions, holds and requests run concurrently, they must be safe for
// concurrent use.
//
// An acquisition is one call of a recipe that asks ZooKeeper for a hold: a lock, a lease, or leadership. It remains one
// acquisition no matter how many sessions it spans. A nested call isn't an acquisition, because it gets another hold on
// the contender its context already has. Nested holds on one contender count as a single hold, which ends with the last
// of them.
type Tracer struct {
	// AcquireStart is called when an acquisition begins, on its caller's goroutine. The acquisition, its requests and
	// the hold use the returned context, which must be derived from ctx.
	AcquireStart func(ctx context.Context, a AcquireStart) context.Context
	// AcquireEnd is called once for each AcquireStart, on the same goroutine, with the context that AcquireStart
	// returned. If the acquisition is granted, HoldStart is called first.
	AcquireEnd func(ctx context.Context, a AcquireEnd)
	// HoldStart is called when a hold is granted, before the acquisition returns, on its caller's goroutine. ctx is the
	// acquisition's context. The hold's context carries the values of the returned context, which must be derived from
	// ctx.
	HoldStart func(ctx context.Context, h HoldStart) context.Context
	// HoldEnd is called once for each HoldStart, with the context that HoldStart returned, after the hold ends. The
	// contender is deleted afterwards, if that is still possible, so a slow hook delays the next holder.
	HoldEnd func(ctx context.Context, h HoldEnd)
	// State is called after every change to the client's state, in order and without skipping any. It runs on a
	// separate goroutine, so the state may already have changed again by the time a change is reported. Client.Close
	// waits for it.
	State func(c StateChange)
	// Connect is called when an attempt to connect to a server succeeds or fails, on a goroutine of the client, which
	// makes one attempt at a time. Attempts that the client abandons, because it is closed or its session has timed
	// out, are not reported.
	Connect func(c Connect)
	// Request is called when a request is answered, or when its connection ends without an answer. This includes
	// requests that the library sends for itself, except pings, connect requests, credentials, SASL tokens, and the close
	// of an earlier session. A retry counts as a separate request. ctx comes from the call or the acquisition that sent
	// the request. If the library sent it for itself or for several callers, ctx carries the values of the context passed
	// to Dial.
	Request func(ctx context.Context, r Request)
}

// AcquireStart describes what an acquisition requests.
type AcquireStart struct {
	// Recipe is "mutex", "rwlock-read", "rwlock-write", "semaphore", "election" or "barrier" (the double
	// barrier).
	Recipe string
	// Name is set by the recipe's WithTracerName option; empty by default.
	Name string
	// Path of the queue, without the chroot.
	Path string
	// Try reports that this is a Try call, which does not wait for holders.
	Try bool
}

// AcquireEnd describes how an acquisition ended.
type AcquireEnd struct {
	AcquireStart
	// Waited is how long the acquisition took.
	Waited time.Duration
	// Position is the place in the queue at which the caller first saw itself, counted as in [WaitError]: 1 if there
	// was no contender ahead, 0 if the caller never saw the queue.
	Position int
	// Token of the hold; 0 if none was granted.
	Token Token
	// Err is the error that the call returns; nil if a hold was granted.
	Err error
}

// Outcome summarizes Err as one of five words: "granted"; "busy" if a Try call was refused; "canceled" if the caller's
// context was canceled or timed out; "closed" if the client was closed; "failed" for all other errors.
func (e AcquireEnd) Outcome() string {
	var gaveUp *WaitError
	switch {
	case e.Err == nil:
		return "granted"
	case errors.Is(e.Err, ErrLocked):
		return "busy"
	case errors.As(e.Err, &gaveUp):
		return "canceled"
	case errors.Is(e.Err, ErrClosed):
		return "closed"
	default:
		return "failed"
	}
}

// HoldStart describes what was granted.
type HoldStart struct {
	// Recipe and Name are those of [AcquireStart].
	Recipe, Name string
	// Queue is the queue's path and Path the contender's, both without the chroot. If there are several leases, Path
	// is that of the first.
	Queue, Path string
	// Token of the hold.
	Token Token
	// ValidUntil returns the time up to which the hold is proven to be held, like [Hold.ValidUntil]. You may call it at
	// any time.
	ValidUntil func() time.Time
}

// HoldEnd describes how a hold ended.
type HoldEnd struct {
	HoldStart
	// Held is how long the hold was held.
	Held time.Duration
	// Lost is why the hold was lost; nil if its owner released it.
	Lost *LostError
}

// StateChange is one change to a client's state.
type StateChange struct {
	// From and To are the states before and after. A client starts as Connecting.
	From, To State
	// At is when the state changed, and Lasted is how long the previous state lasted.
	At     time.Time
	Lasted time.Duration
	// Server is the server that the client is, or was, connected to, as in the connect string, together with the
	// address its name resolved to; empty if there was none.
	Server string
	// Session is the ID of the session, and Timeout is the session timeout that the server granted; both are 0 before
	// the first session.
	Session int64
	Timeout time.Duration
	// Err is why the connection or the session is gone. If a session ended, it is a [*LostError]. It is nil if To is
	// Connected or Closed.
	Err error
}

// Connect is one attempt to connect to a server.
type Connect struct {
	// Server is the server as in the connect string, together with the address its name resolved to, such as
	// "zk1:2181 (10.0.0.1)".
	Server string
	// Began is when the attempt began, and Took is how long it took: to open the connection, with TLS if configured, to
	// get the session, and to authenticate. Names are resolved before the attempt, so that time isn't included.
	Began time.Time
	Took  time.Duration
	// Outcome is one of six words: "connected"; "unreachable" if no connection could be opened; "timeout" if the
	// attempt exceeded conn.WithConnectTimeout; "refused" if the server rejected the credentials; "expired" if it
	// answered that the session is over; "failed" for any other failure, such as a server that hangs up because it has
	// no quorum, or a SASL exchange that cannot begin.
	Outcome string
	// Err is why the attempt failed; nil if it succeeded.
	Err error
}

// Request is one request to a server.
type Request struct {
	// Op is "create", "delete", "exists", "get", "set", "acl", "setacl", "children", "sync", "multi", "watch", "unwatch"
	// or "close".
	Op string
	// Path without the chroot; for a transaction, that of the first operation. If the client creates the chroot, or uses
	// a node outside it, this is the path on the server.
	Path string
	// Sent is when the request was sent, and Took is how long the answer took.
	Sent time.Time
	Took time.Duration
	// Code is a short name for Err from a fixed list, such as "no-node" or "connection-loss"; empty if there was
	// no error.
	Code string
	// Err is the server's error, or reports that the server did not answer. Exists on a missing node is not an
	// error.
	Err error
}
