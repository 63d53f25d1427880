package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// The errors to distinguish. An HTTP server might answer 409 for ErrStale, 400 for ErrInvalid, and 503 for all
// others.
var (
	// ErrStale is returned when the resource has seen a newer token. The error is a [*StaleError].
	ErrStale = errors.New("stale token")
	// ErrInvalid is returned for a malformed request: no resource, or a token that no hold can have.
	ErrInvalid = errors.New("invalid fence request")
)

// StaleError reports the token that was rejected, and the newer token that the resource has seen. It matches
// [ErrStale].
type StaleError struct {
	Resource string
	// Presented is the rejected token, Highest the highest token that the resource has seen.
	Presented, Highest zkrecipes.Token
}

// Error names the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%q: %v %d: %d has been seen", e.Resource, ErrStale, e.Presented, e.Highest)
}

// Is reports that every StaleError matches [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Store keeps the highest token that each resource has seen. It must be safe for concurrent use.
type Store interface {
	// Raise makes t the highest token of the resource, unless the store has a higher one, and returns the highest token
	// afterwards. It is atomic, so of any two calls for a resource, one sees the other's result. If Raise returns no
	// error, the store keeps the returned token as long as it keeps anything.
	//
	// After an error the store may or may not have kept t. Both are safe, because the gate did not admit t.
	Raise(ctx context.Context, resource string, t zkrecipes.Token) (highest zkrecipes.Token, err error)
}

// Gate admits tokens in ascending order, separately for each resource. It is safe for concurrent use, and so
// are several gates on one store.
type Gate struct {
	store Store
}

// New returns a gate that records tokens in store.
func New(store Store) *Gate { return &Gate{store: store} }

// Admit returns nil and records t, unless the resource has seen a higher token. You can present a token any number of
// times, and it is admitted until a higher one is presented. Call Admit on the first read in a section, and in one
// atomic step with the access that it guards (see the package documentation).
//
// After an error, t was not admitted, and you must not read or write anything on its behalf. No lower token is admitted
// after a higher one, even if calls run concurrently or the store fails.
//
// Errors: a [*StaleError]; [ErrInvalid] for an empty resource or a token that is not positive; or the store's error.
func (g *Gate) Admit(ctx context.Context, resource string, t zkrecipes.Token) error {
	switch {
	case g == nil || g.store == nil:
		return fmt.Errorf("%w: the gate has no store", ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: %q: the context is nil", ErrInvalid, resource)
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
	case highest < t: // a store that forgets tokens protects nothing
		return fmt.Errorf("fence %q: token %d: the store kept %d", resource, t, highest)
	}
	return nil
}
