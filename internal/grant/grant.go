// Package grant is how the packages of this module make holds, and others cannot.
//
// The type Hold is declared in the root package, where users read of it, so only the root package can fill it. If the root
// package exported a constructor, users would find a function that only recipes may call. So it leaves its constructor here,
// below itself. No field moves, and a recipe still gives a backing of its own. The price is that this package cannot name the
// types of the root package: they are type parameters of [Backing], and [NewHold] has to be asserted to its type. That happens
// while packages are initialized. So a constructor that does not fit ends every program and test at once.
//
// [Root] and [Part] need no such constructor: the root package declares its types as these, and packages of this module convert.
package grant

import (
	"context"
	"fmt"
	"time"
)

// Backing stands behind a hold: the contender in ZooKeeper, as the recipe that acquired it keeps it. The type arguments are
// Token, Op and OpResult of package zkrecipes.
type Backing[Token, Op, OpResult any] interface {
	// Path and Token are those of the contender.
	Path() string
	Token() Token
	// ValidUntil is the time up to which the contender is proven to exist, unless it is deleted by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release stand behind the methods of Hold. Release must be idempotent: every Hold.Release
	// calls it, unless the hold was lost before. The hold has ended by then.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...Op) ([]OpResult, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
	// Lapse is called once by a hold that looks at the clock and finds that until, its deadline, has passed. The hold has ended by
	// then. Lapse waits for nothing: each method of a hold and of its context may call it.
	Lapse(until time.Time)
	// OnExpiring stands behind Hold.Expiring. It calls f once, as soon as at most lead is left of ValidUntil, until stop is
	// called. The deadline may move on and move back meanwhile.
	OnExpiring(lead time.Duration, f func()) (stop func())
}

// NewHold makes a hold. It is a
//
//	func(ctx context.Context, b Backing[Token, Op, OpResult]) (h *Hold, end func(*LostError))
//
// with the types of package zkrecipes, which sets it. The function that it returns ends the hold as lost. The hold's context has
// the values of ctx, and neither its cancellation nor its deadline. The first end counts: after it, end does nothing.
var NewHold any

// Root is what zkrecipes.Root is converted from. Roots are equal if what NewRoot was given is.
type Root struct{ at fmt.Stringer }

// NewRoot returns the root that at describes, which must be comparable.
func NewRoot(at fmt.Stringer) Root { return Root{at} }

// String returns what describes the root; empty for the zero Root.
func (r Root) String() string {
	if r.at == nil {
		return ""
	}
	return r.at.String()
}

// Part is what zkrecipes.Part is converted from.
type Part struct{ of any }

// NewPart returns the part that of describes: a hold.Part.
func NewPart(of any) Part { return Part{of} }

// Of returns what NewPart was given; nil for the zero Part.
func (p Part) Of() any { return p.of }
