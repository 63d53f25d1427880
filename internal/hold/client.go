package hold

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shareKey is the context key for the share of a hold.
type shareKey struct{}

// shareOf returns the innermost share that ctx descends from, or nil.
func shareOf(ctx context.Context) *share {
	if ctx == nil {
		return nil
	}
	sh, _ := ctx.Value(shareKey{}).(*share)
	return sh
}

// RequireClient returns an error unless h was acquired through a client with the same connection and root as c. It is
// called before a write through c. A hold of zktest/fakehold has no client and is always accepted.
func RequireClient(h *zkrecipes.Hold, c *client.Client) error {
	sh := shareOf(h.Context())
	// The context of a hold made for a test may descend from a real hold.
	if sh == nil || sh.hold != h {
		return nil
	}
	if err := session.RequireRoot(sh.through.Client.Root(), c.Root()); err != nil {
		return fmt.Errorf("the hold %s %w", h.Path(), err)
	}
	return nil
}
