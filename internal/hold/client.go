package hold

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shareKey finds the share of a hold in its context.
type shareKey struct{}

// shareOf returns the innermost share that ctx descends from; nil if there is none.
func shareOf(ctx context.Context) *share {
	if ctx == nil {
		return nil
	}
	sh, _ := ctx.Value(shareKey{}).(*share)
	return sh
}

// RequireClient refuses a hold for a write through c, unless its recipe is on a client with the same connection and the same
// root. A hold of zktest/fakehold has no client, and is not refused.
func RequireClient(h *zkrecipes.Hold, c *client.Client) error {
	sh := shareOf(h.Context())
	if sh == nil || sh.hold != h { // the context of a hold made for a test may descend from a real one
		return nil
	}
	if err := session.RequireRoot(sh.through.Client.Root(), c.Root()); err != nil {
		return fmt.Errorf("the hold %s %w", h.Path(), err)
	}
	return nil
}
