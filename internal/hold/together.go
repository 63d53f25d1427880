package hold

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// TxnOfAll is [zkrecipes.Hold.Txn] guarded by the contenders of all holds. The paths of ops are those of the first
// hold's client.
//
// Errors: those of Hold.Txn; an immediate one if a hold is not below the root of the first one's client.
func TxnOfAll(ctx context.Context, holds []*zkrecipes.Hold, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	backings := make([]*backing, len(holds))
	for i, h := range holds {
		if err := h.Err(); err != nil { // Err checks the clock
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
		}
		backings[i] = backingOf(h.Context())
		first, c := backings[0].through.Client, backings[i].through.Client
		if !first.Same(c) || first.Rel(c.Abs(h.Path())) == "" {
			return nil, fmt.Errorf("transaction: %s and %s: want locks of the same client", holds[0].Path(), h.Path())
		}
	}
	return guarded(ctx, backings, ops)
}
