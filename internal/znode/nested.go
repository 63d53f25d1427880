package znode

import (
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// nested is [Queue.Held] if the queue is reentrant.
func (q *Queue) nested(ctx context.Context, kind string) (*zkrecipes.Hold, bool) {
	if !q.config.Reentrant {
		return nil, false
	}
	return q.Held(ctx, kind)
}

// Held returns another hold on the contender of the given kind that ctx descends from, provided it is still held and
// ctx is not done. The contender is removed with the last of its holds.
func (q *Queue) Held(ctx context.Context, kind string) (*zkrecipes.Hold, bool) {
	return hold.Again(ctx, q.parent, kind)
}

// Holds reports whether ctx descends from a contender of the given kind that is still held.
func (q *Queue) Holds(ctx context.Context, kind string) bool {
	g, ok := hold.Above(ctx, q.parent, kind)
	return ok && g.IsHeld()
}

// conflicting returns the kinds that a contender of the given kind would wait for.
func (q *Queue) conflicting(kind string) []string {
	if kind != Read {
		return q.kinds
	}
	return slices.DeleteFunc(slices.Clone(q.kinds), func(other string) bool { return other == Read })
}

// errNotHeld means that a context does not descend from a hold that is still held.
var errNotHeld = errors.New("not held")

// downgrade takes the place, in the queue, of the contender of the kind e.From that ctx descends from. The rule sees
// both contenders in one list, so no contender behind them can have been granted. Each then holds the place by its own
// node, and the place is free when both have left. They share one token, and the next contender to get the place has a
// larger one.
//
// Errors: errNotHeld if there is no such contender, or its node is not in the list.
func (q *Queue) downgrade(ctx context.Context, e Entry, a *hold.Attempt) (*zkrecipes.Hold, error) {
	if e.From == "" {
		return nil, errNotHeld
	}
	g, ok := hold.Above(ctx, q.parent, e.From)
	if !ok || !g.IsHeld() { // a writer that was released may still have its node
		return nil, errNotHeld
	}
	writer := q.Parse(g.Node.Paths[0])
	want := q.spec(e.Kind)
	want.Key = writer.Key
	h, err := q.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		if s.ID() != g.Node.Session.ID() {
			return nil, errNotHeld
		}
		w, err := q.join(ctx, s, want, a, true)
		if err != nil {
			return nil, err
		}
		defer w.leaveUnlessGranted()
		if _, err := w.takeTurn(atThePlaceOf(writer.Name), false); err != nil {
			return nil, w.gaveUp(err)
		}
		h, err := w.grant(g.Token)
		return h, w.gaveUp(err)
	})
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil, errNotHeld
	}
	return h, err
}
