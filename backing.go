package zkrecipes

import (
	"context"
	"time"
)

// Backing is the implementation of a [Hold] by the recipe that acquired it: the contender in ZooKeeper. Programs
// that use recipes do not need it; see [NewHold].
type Backing interface {
	// Path and Token are those of the contender.
	Path() string
	Token() Token
	// ValidUntil is the time up to which the contender is proven to exist, unless it is deleted by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release implement the methods of Hold. Release must be idempotent: every
	// Hold.Release calls it, unless the hold was lost before. The hold has ended by then.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...Op) ([]OpResult, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
	// Lapse is called once by a hold that looks at the clock and finds that until, its deadline, has passed. The
	// hold has ended by then. Lapse must not block: each method of a hold and of its context may call it.
	Lapse(until time.Time)
	// OnExpiring implements Hold.Expiring. It calls f once, as soon as at most lead remains before ValidUntil,
	// unless stop is called first. The deadline may advance and move back meanwhile.
	OnExpiring(lead time.Duration, f func()) (stop func())
}

// NewHold returns a hold backed by b, and a function that ends it as lost. It is for authors of new recipes.
// Programs get holds from recipes, and tests from package zktest/fakehold.
//
// The context of the hold carries the values of ctx, but neither its cancellation nor its deadline. The first
// end counts: end does nothing if the hold has been released or lost.
func NewHold(ctx context.Context, b Backing) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{backing: b, since: time.Now()}
	h.ctx = holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}
