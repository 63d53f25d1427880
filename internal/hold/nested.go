package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
)

// heldKey finds, in a context, the grants that it descends from.
type heldKey struct{ path, kind string }

func keyOf(p *ephemeral.Parent, kind string) heldKey { return heldKey{p.Client.Abs(p.Path), kind} }

// held is one of those grants, with the others. Several have one key if paths are equal on two ensembles, or if two clients
// of one ensemble hold a lock as readers.
type held struct {
	grant *Grant
	outer *held
}

// allHeld returns the innermost grant that ctx descends from, also of another client.
func allHeld(ctx context.Context, p *ephemeral.Parent, kind string) *held {
	h, _ := ctx.Value(keyOf(p, kind)).(*held)
	return h
}

// Above returns the grant of this client that ctx descends from, if it is proven now.
func Above(ctx context.Context, p *ephemeral.Parent, kind string) (*Grant, bool) {
	for h := allHeld(ctx, p, kind); h != nil; h = h.outer {
		if h.grant.Node.Parent.Client.Same(p.Client) {
			return h.grant, h.grant.isProven()
		}
	}
	return nil, false
}

// Again returns another hold on the node of the given kind that ctx descends from, if that is still held and ctx has not
// ended. The node goes with the last of its holds.
func Again(ctx context.Context, p *ephemeral.Parent, kind string) (*zkrecipes.Hold, bool) {
	g, ok := Above(ctx, p, kind)
	if !ok || ctx.Err() != nil {
		return nil, false
	}
	return g.hold(ctx, p)
}

func (g *Grant) isProven() bool { return time.Now().Before(g.Node.Session.ValidUntil()) }

// IsHeld reports whether the grant has not ended.
func (g *Grant) IsHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended && g.isProven()
}

// CheckDeadlock refuses to let a contender of the given kind wait for a node of the kinds others that ctx descends from: the
// call would wait for its own caller.
//
// A contender that excludes its own kind is refused by what its client knows of its own nodes. In all other cases the server
// is asked. A node of another client may be under a parent of another ensemble. A reader inside a writer comes here when its
// downgrade did not find the writer's node.
func CheckDeadlock(ctx context.Context, p *ephemeral.Parent, kind string, others []string) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the acquisition says why
	}
	exclusive := slices.Contains(others, kind)
	for _, other := range others {
		for h := allHeld(ctx, p, other); h != nil; h = h.outer {
			n := h.grant.Node
			path := p.Path + strings.TrimPrefix(n.Paths[0], n.Parent.Path)
			known := exclusive && n.Parent.Client.Same(p.Client)
			if h.grant.IsHeld() && (known || isThere(ctx, p, path, n.Czxid)) {
				return fmt.Errorf("%s: %w: the context descends from the hold %s", p.Path, zkrecipes.ErrDeadlock, path)
			}
		}
	}
	return nil
}

// isThere reports whether a node is known to be there. What keeps an answer away keeps an acquisition waiting too.
func isThere(ctx context.Context, p *ephemeral.Parent, path string, czxid int64) bool {
	if p.Client.Sync(ctx, path) != nil {
		return false
	}
	exists, stat, err := p.Client.Exists(ctx, path)
	return err == nil && exists && stat.Czxid == czxid
}
