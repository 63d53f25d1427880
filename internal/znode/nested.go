package znode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// heldKey finds, in a context, the grants that it descends from.
type heldKey struct{ path, kind string }

// held is one of those grants, with the others. Several have one key if paths are equal on two ensembles, or if two clients
// of one ensemble hold a lock as readers.
type held struct {
	grant *grant
	outer *held
}

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
	return ok && g.isHeld()
}

// above returns the grant of this client that ctx descends from, if it is proven now.
func (q *Queue) above(ctx context.Context, kind string) (*grant, bool) {
	for h := q.held(ctx, kind); h != nil; h = h.outer {
		if h.grant.queue.client.Same(q.client) {
			return h.grant, h.grant.isProven()
		}
	}
	return nil, false
}

// held returns the innermost grant that ctx descends from, also of another client.
func (q *Queue) held(ctx context.Context, kind string) *held {
	h, _ := ctx.Value(heldKey{q.client.Abs(q.path), kind}).(*held)
	return h
}

func (g *grant) isProven() bool { return time.Now().Before(g.node.session.ValidUntil()) }

func (g *grant) isHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended && g.isProven()
}

// checkDeadlock refuses a contender that would wait for one that ctx descends from: the call would wait for its own caller.
// The server is asked whether the other contender is in this queue, and not in one of another ensemble.
func (q *Queue) checkDeadlock(ctx context.Context, kind string) error {
	for _, above := range q.kinds {
		if kind == Read && above == Read {
			continue
		}
		for h := q.held(ctx, above); h != nil; h = h.outer {
			path := q.path + strings.TrimPrefix(h.grant.node.paths[0], h.grant.queue.path)
			if h.grant.isHeld() && q.contains(ctx, path, h.grant.node.czxid) {
				return fmt.Errorf("%s: %w: the context descends from the hold %s", q.path, zkrecipes.ErrDeadlock, path)
			}
		}
	}
	return nil
}

// contains reports whether a contender is known to be there. What keeps an answer away keeps an acquisition waiting too.
func (q *Queue) contains(ctx context.Context, path string, czxid int64) bool {
	if q.client.Sync(ctx, path) != nil {
		return false
	}
	exists, stat, err := q.client.Exists(ctx, path)
	return err == nil && exists && stat.Czxid == czxid
}

// ErrNotHeld says that a context does not descend from a hold that is still held.
var ErrNotHeld = errors.New("not held")

// Downgrade takes the place in the queue of the contender of the kind from that ctx descends from. The rule sees both
// contenders in one list, so no contender behind them can have been granted. Both then hold the place, and it is free when
// both have left. They have one token, and the next to get the place has a larger one.
//
// Errors: ErrNotHeld if there is no such contender, or its node is not in the list.
func (q *Queue) Downgrade(ctx context.Context, from string, e Entry) (*zkrecipes.Hold, error) {
	g, ok := q.above(ctx, from)
	if !ok {
		return nil, ErrNotHeld
	}
	waiting, a := q.begin(ctx, e.As, q.path, false)
	h, err := a.end(q.inSession(waiting, func(s *session.Session) (*zkrecipes.Hold, error) {
		if s.ID() != g.node.session.ID() {
			return nil, ErrNotHeld
		}
		w, l, err := q.join(waiting, s, contenders{kind: e.Kind, data: e.Data, key: g.node.first().Key, attempt: a}, true)
		if err != nil {
			return nil, err
		}
		defer w.leaveUnlessGranted()
		if _, err := w.takeTurn(l, atThePlaceOf(g.node.first().Name), noTime); err != nil {
			return nil, w.gaveUp(err)
		}
		h, err := w.grant(g.token)
		return h, w.gaveUp(err)
	}))
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil, ErrNotHeld
	}
	return h, err
}
