package zkrecipes

import (
	"context"
	"time"
)

// Backing is what a recipe implements to create a [Hold]: it represents the contender in ZooKeeper. You need it only if
// you write a recipe of your own; see [NewHold].
type Backing interface {
	// Path and Token return the contender's path and its fencing token.
	Path() string
	Token() Token
	// ValidUntil returns the time up to which the contender is proven to exist, unless it is deleted by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release implement the methods of Hold. Every call to Hold.Release calls Release after the
	// hold has ended, unless the hold had already been lost, so Release must be idempotent.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...Op) ([]OpResult, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
	// Lapse is called once, by a hold that checks the clock and finds that its deadline has passed; until is that
	// deadline. The hold has ended by then. Because any method of a hold or of its context may call Lapse, it must not
	// block.
	Lapse(until time.Time)
	// OnExpiring implements Hold.Expiring. It calls f once, as soon as the time remaining before ValidUntil is at most
	// lead, unless stop is called first. Until then, the deadline may advance or move back.
	OnExpiring(lead time.Duration, f func()) (stop func())
}

// NewHold returns a hold backed by b, and a function that ends it as lost. Use it to write a recipe; programs get
// holds from recipes, and tests from package zktest/fakehold.
//
// The hold's context carries ctx's values, but neither its cancellation nor its deadline. Only the first end counts, so
// calling end is a no-op if the hold was already released or lost.
func NewHold(ctx context.Context, b Backing) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{backing: b, since: time.Now()}
	h.ctx = holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}
