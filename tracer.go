package zkrecipes

import (
	"context"
	"errors"
	"time"
)

// Tracer observes a client, its recipes and their holds. The option conn.WithTracer takes it, and may take several. A hook that is
// nil is not called. The modules zkprom (metrics) and zkotel (traces) have ready tracers.
//
// The hooks are called while the library works: on the goroutine of a caller, and on the goroutines that read answers and tell of
// losses. So a hook must return soon, must not panic, and must not call the client, a recipe or a hold. While it blocks, answers
// are not read, and a lock may be lost. No lock of the library is held during a call. Calls for different acquisitions, holds and
// requests come at the same time, so hooks must be safe for concurrent use.
//
// An acquisition is one call of a recipe that asks ZooKeeper for a hold: a lock, a lease, or leadership. It is one however many
// sessions it lives through. A nested call, which gets another hold on the contender of its context, is none. Nested holds on one
// contender count as one hold, which ends with the last of them.
type Tracer struct {
	// AcquireStart is called when an acquisition begins, on the goroutine of its caller. The acquisition goes on with the
	// context that it returns, which must descend from ctx. So do the requests of the acquisition, and the hold.
	AcquireStart func(ctx context.Context, a AcquireStart) context.Context
	// AcquireEnd is called once for each start, on the same goroutine, with the context that the start returned. If there is a
	// grant, HoldStart comes before it.
	AcquireEnd func(ctx context.Context, a AcquireEnd)
	// HoldStart is called when a hold is granted, before the acquisition returns, on the goroutine of its caller. Its context is
	// the context of the acquisition. The context of the hold has the values of the context that it returns, which must
	// descend from ctx.
	HoldStart func(ctx context.Context, h HoldStart) context.Context
	// HoldEnd is called once for each start, with the context that the start returned. The hold has ended by then. If the holder
	// or the library still can, it deletes the contender afterwards: a slow hook delays the next holder.
	HoldEnd func(ctx context.Context, h HoldEnd)
	// State is called after each change of the client's state, in the order of the changes. No change is left out. It is called
	// on a goroutine for this alone, so a change may be over when it is told. Close of the client waits for it.
	State func(c StateChange)
	// Request is called when a request was answered, or when its connection ended without an answer. The requests of the library
	// itself are among them, pings and connect requests are not. A request that was sent again is a request of its own. The
	// context comes from the call or the acquisition that sent the request. If the library sent it for itself, or for several
	// callers, the context has the values of the one given to Dial.
	Request func(ctx context.Context, r Request)
	// Shard is called after each change of what a member has to do with a shard, on the goroutine that works on the shard. The changes
	// of one shard come in their order. The lock of the shard is an acquisition and a hold of its own, of a mutex.
	Shard func(c ShardChange)
	// ShardPlan is called by the leader of shards after it has written a plan.
	ShardPlan func(p ShardPlan)
}

// AcquireStart says what an acquisition wants.
type AcquireStart struct {
	// Recipe is "mutex", "rwlock-read", "rwlock-write", "semaphore", "election" or "barrier" (the double one).
	Recipe string
	// Name is what the option WithTracerName of the recipe says; empty without it.
	Name string
	// Path of the queue, as the client sees it: the chroot is taken off.
	Path string
	// Try says that the caller does not wait for holders.
	Try bool
}

// AcquireEnd says how an acquisition ended.
type AcquireEnd struct {
	AcquireStart
	// Waited is how long the acquisition took.
	Waited time.Duration
	// Position is the place in the queue that the caller first saw itself at, counted as in [WaitError]: 1 if there was no
	// contender ahead. It is 0 if the caller never got to see the queue.
	Position int
	// Token of the hold; 0 without a grant.
	Token Token
	// Err is what the call returns; nil for a grant.
	Err error
}

// Outcome sums up Err as one of five words: "granted"; "busy" if a Try call was refused; "canceled" if the context of the caller
// ended; "closed" if the client was closed; "failed" for all other errors.
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

// HoldStart says what was granted.
type HoldStart struct {
	// Recipe and Name are those of [AcquireStart].
	Recipe, Name string
	// Queue is the path of the queue, and Path the one of the contender, as the client sees them. Of several leases it is the
	// first.
	Queue, Path string
	// Token of the hold.
	Token Token
	// ValidUntil returns the time up to which the hold is proven, as [Hold.ValidUntil] does. It may be called at any time.
	ValidUntil func() time.Time
}

// HoldEnd says how a hold ended.
type HoldEnd struct {
	HoldStart
	// Held is how long it was held.
	Held time.Duration
	// Lost says why the hold was lost; nil if its owner released it.
	Lost *LostError
}

// StateChange is one change of the state of a client.
type StateChange struct {
	// From and To are the states before and after. A client begins as Connecting.
	From, To State
	// At is when the state changed, and Lasted is how long the state before lasted.
	At     time.Time
	Lasted time.Duration
	// Server is the server that the client is, or was, connected to, as in the connect string, with the address that was found for a
	// name; empty if there was none.
	Server string
	// Session is the id of the session, and Timeout is what the server granted; 0 before the first session.
	Session int64
	Timeout time.Duration
	// Err is why the connection or the session is gone. At the end of a session it is a [*LostError]. It is nil if To is
	// Connected or Closed.
	Err error
}

// Request is one request to a server.
type Request struct {
	// Op is "create", "delete", "exists", "get", "set", "acl", "children", "sync", "multi", "watch", "unwatch" or "close".
	Op string
	// Path as the client sees it; of a transaction it is the first.
	Path string
	// Sent is when the request was sent, and Took is how long the answer took.
	Sent time.Time
	Took time.Duration
	// Code is a short name for Err, out of a fixed list, such as "no-node" or "connection-loss"; empty if there is no error.
	Code string
	// Err is what the server answered, or that it did not answer. An Exists of a missing node has none.
	Err error
}

// ShardState is what a member has to do with a shard.
type ShardState string

// The states; their words are those of metrics.
const (
	// ShardNone: the shard is not this member's.
	ShardNone ShardState = "none"
	// ShardWaiting: the plan gives the shard to the member, which does not have it.
	ShardWaiting ShardState = "waiting"
	// ShardOwned: the member has the lock of the shard, and calls the function.
	ShardOwned ShardState = "owned"
)

// ShardChange is one change of what a member has to do with a shard.
type ShardChange struct {
	// Name is what the option WithTracerName of the shards says; empty without it.
	Name string
	// Path of the shards, as the client sees it.
	Path string
	// Member is the id of the member, and Shard the name of the shard.
	Member, Shard string
	// From and To are the states before and after.
	From, To ShardState
	// At is when the state changed, and Lasted is how long the state before lasted; 0 if that was ShardNone. The wait before ShardOwned is
	// the longest time that the shard can have been without an owner since the plan, or since this member lost it. If the shard
	// moves from a member that works, that one owns it for most of the wait.
	At     time.Time
	Lasted time.Duration
	// Token of the hold, if To is ShardOwned; else 0.
	Token Token
	// Err says why the shard is not owned any more: shard.ErrMoved, a [*LostError], the cause of the context of Run, or why the
	// member gives it away. It is nil if To is ShardOwned, and when the plan has given the shard to the member.
	Err error
}

// ShardPlan is a plan that the leader of shards has written.
type ShardPlan struct {
	// Name and Path are those of [ShardChange].
	Name, Path string
	// Shards and Members are how many there are.
	Shards, Members int
	// Moves is how many shards the plan takes from the members that had them.
	Moves int
	// Nobody is how many shards the plan gives to no member.
	Nobody int
}
