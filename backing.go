package zkrecipes

import (
	"context"
	"time"
)

// Backing is the implementation of a [Hold] by the recipe that acquired it: the contender in ZooKeeper. You need it
// only to write a recipe of your own; see [NewHold].
type Backing interface {
	// Path and Token are the contender's.
	Path() string
	Token() Token
	// ValidUntil is the time up to which the contender is proven to exist, unless it is deleted by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release implement the methods of Hold. Release must be idempotent: unless the hold was
	// lost before, every Hold.Release calls it, after the hold has ended.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...Op) ([]OpResult, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
	// Lapse is called once, by a hold that looks at the clock and finds that its deadline, until, has passed. By then
	// the hold has ended. Lapse must not block, because any method of a hold or of its context may call it.
	Lapse(until time.Time)
	// OnExpiring implements Hold.Expiring. It calls f once, as soon as at most lead remains before ValidUntil, unless
	// stop is called first. The deadline may advance and move back meanwhile.
	OnExpiring(lead time.Duration, f func()) (stop func())
}

// NewHold returns a hold backed by b, and a function that ends it as lost. Use it to write a recipe; programs get
// holds from recipes, and tests from package zktest/fakehold.
//
// The hold's context carries ctx's values, but neither its cancellation nor its deadline. Only the first end counts:
// end is a no-op if the hold was already released or lost.
func NewHold(ctx context.Context, b Backing) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{backing: b, since: time.Now()}
	h.ctx = holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}
