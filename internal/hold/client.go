package hold

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shareKey finds the share of a hold in its context.
type shareKey struct{}

// RequireClient refuses a hold for a write through c, unless its recipe is on a client with the same connection and the same
// root. A hold of zktest/fakehold has no client, and is not refused.
func RequireClient(h *zkrecipes.Hold, c *client.Client) error {
	sh, ok := h.Context().Value(shareKey{}).(*share)
	if !ok || sh.hold != h { // the context of a hold made for a test may descend from a real one
		return nil
	}
	if err := session.RequireRoot(sh.through.Client.Root(), c.Root()); err != nil {
		return fmt.Errorf("the hold %s %w", h.Path(), err)
	}
	return nil
}
