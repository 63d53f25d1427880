package znode

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// heldKey finds, in a context, the grant that it descends from.
type heldKey struct{ path, kind string }

// Held returns another hold on the contender of the given kind that ctx descends from, if that is still held and ctx has
// not ended. The contender goes with the last of its holds.
func (q *Queue) Held(ctx context.Context, kind string) (*zkrecipes.Hold, bool) {
	g, ok := q.above(ctx, kind)
	if !ok || ctx.Err() != nil {
		return nil, false
	}
	return g.hold(ctx, q)
}

// Holds reports whether ctx descends from a contender of the given kind that is still held.
func (q *Queue) Holds(ctx context.Context, kind string) bool {
	g, ok := q.above(ctx, kind)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended
}

// above returns the grant that ctx descends from, if it is proven now.
func (q *Queue) above(ctx context.Context, kind string) (*grant, bool) {
	g, ok := ctx.Value(heldKey{q.client.Abs(q.path), kind}).(*grant)
	return g, ok && g.queue.client.Same(q.client) && time.Now().Before(g.node.session.ValidUntil())
}

// ErrNotHeld says that a context does not descend from a hold that is still held.
var ErrNotHeld = errors.New("not held")

// Downgrade takes the place in the queue of the contender of the kind from that ctx descends from. The rule sees both
// contenders in one list, so no contender behind them can have been granted. Both then hold the place, and it is free when
// both have left. They have one token, and the next to get the place has a larger one.
//
// Errors: ErrNotHeld if there is no such contender, or it is being released.
func (q *Queue) Downgrade(ctx context.Context, from string, e Entry) (*zkrecipes.Hold, error) {
	g, ok := q.above(ctx, from)
	if !ok {
		return nil, ErrNotHeld
	}
	h, err := q.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		if s.ID() != g.node.session.ID() {
			return nil, ErrNotHeld
		}
		w, l, err := q.join(ctx, s, contenders{kind: e.Kind, data: e.Data, key: g.node.first().Key}, true)
		if err != nil {
			return nil, err
		}
		defer w.leaveUnlessGranted()
		if _, err := w.takeTurn(l, samePlaceAs(from), noTime); err != nil {
			return nil, w.gaveUp(err)
		}
		h, err := w.grant(g.token)
		return h, w.gaveUp(err)
	})
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil, ErrNotHeld
	}
	return h, err
}
