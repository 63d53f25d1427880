package zkrecipes

import "context"

// NewHold makes a hold on a grant of a test's own, and returns what ends it as lost.
func NewHold(ctx context.Context, b backing) (h *Hold, lose func(*LostError)) {
	h = newHold(ctx, b)
	return h, func(lost *LostError) { h.end(lost) }
}
