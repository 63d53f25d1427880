package hold

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// backingKey is the context key for the backing of a hold.
type backingKey struct{}

// backingOf returns the innermost backing that ctx descends from, or nil.
func backingOf(ctx context.Context) *backing {
	if ctx == nil {
		return nil
	}
	b, _ := ctx.Value(backingKey{}).(*backing)
	return b
}

// RequireClient returns an error unless h was acquired through a client with the same connection and root as c. It is
// called before a write through c. A hold of zktest/fakehold has no client and is always accepted.
func RequireClient(h *zkrecipes.Hold, c *client.Client) error {
	b := backingOf(h.Context())
	// The context of a hold made for a test may descend from a real hold.
	if b == nil || b.hold != h {
		return nil
	}
	if err := session.RequireRoot(b.through.Client.Root(), c.Root()); err != nil {
		return fmt.Errorf("the hold %s %w", h.Path(), err)
	}
	return nil
}
