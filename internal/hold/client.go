package hold

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// shareKey finds the share of a hold in its context.
type shareKey struct{}

// RequireClient refuses a hold for a write through c, unless its recipe is on a client with the same connection and the same
// root. Another connection has another session, which cannot guard the write. With another root, a path is another node. A
// hold that [zkrecipes.NewHold] made for a test has no client, and is not refused.
func RequireClient(h *zkrecipes.Hold, c *session.Client) error {
	sh, ok := h.Context().Value(shareKey{}).(*share)
	if !ok || sh.hold != h { // the context of a hold made for a test may descend from a real one
		return nil
	}
	of := sh.through.Client
	if of.Same(c) && of.Abs("/") == c.Abs("/") {
		return nil
	}
	return fmt.Errorf("the hold %s is of a client of %s in session 0x%x, and the write of one of %s in session 0x%x: want one client with one root",
		h.Path(), of.Address(), sh.grant.Node.Session.ID(), c.Address(), c.Status().Session)
}
