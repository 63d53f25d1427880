package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// The errors that a resource answers differently: over HTTP, say, 409 and 400, and 503 for all others.
var (
	// ErrStale says that a newer token has been seen. The error is a [*StaleError].
	ErrStale = errors.New("stale token")
	// ErrInvalid says that the request makes no sense: no resource, or a token that no hold has.
	ErrInvalid = errors.New("invalid fence request")
)

// StaleError says which token was refused, and which one has taken its place. It matches [ErrStale].
type StaleError struct {
	Resource string
	// Presented is the token that was refused, Highest the highest one seen.
	Presented, Highest zkrecipes.Token
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%q: %v %d: %d has been seen", e.Resource, ErrStale, e.Presented, e.Highest)
}

// Is reports that every StaleError matches [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Store keeps the highest token seen of each resource. It must be safe for concurrent use.
type Store interface {
	// Raise makes t the highest token of resource, unless a higher one is kept, and returns the highest then. All in
	// one step: of any two calls on a resource, one sees what the other did. When it returns without an error, what it
	// returns outlives the process as far as the store outlives it.
	//
	// After an error t may or may not have been kept; both are safe, since t was not admitted.
	Raise(ctx context.Context, resource string, t zkrecipes.Token) (highest zkrecipes.Token, err error)
}

// Gate admits tokens in their order, for each resource apart. It is safe for concurrent use, and so are several gates
// on one store.
type Gate struct {
	store Store
}

// New returns a gate that remembers in store.
func New(store Store) *Gate { return &Gate{store: store} }

// Admit returns nil if t is not below the highest token that resource has been shown, which t then is: a token is
// admitted as often as it is presented, until a higher one was. It is to be called at the first read of a section
// already, and in one step with the access that it guards (see the package comment).
//
// After any error t was not admitted, and nothing must be read or written on its behalf. A lower token is never
// admitted after a higher one was, also when calls run at the same time, and when the store fails.
//
// Errors: a [*StaleError]; [ErrInvalid] for an empty resource or a token that is not positive; the store's.
func (g *Gate) Admit(ctx context.Context, resource string, t zkrecipes.Token) error {
	switch {
	case g == nil || g.store == nil:
		return fmt.Errorf("%w: the gate has no store", ErrInvalid)
	case resource == "":
		return fmt.Errorf("%w: the resource is empty", ErrInvalid)
	case t <= 0:
		return fmt.Errorf("%w: %q: token %d: tokens are positive", ErrInvalid, resource, t)
	}
	highest, err := g.store.Raise(ctx, resource, t)
	switch {
	case err != nil:
		return fmt.Errorf("fence %q: token %d: %w", resource, t, err)
	case highest > t:
		return &StaleError{Resource: resource, Presented: t, Highest: highest}
	case highest < t: // a store that forgets what it was told protects nothing
		return fmt.Errorf("fence %q: token %d: the store kept %d", resource, t, highest)
	}
	return nil
}
