package hold

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/layout"
)

// allHeld yields the grants under p, of the given kind, that ctx descends from through a hold that has not ended,
// innermost first. There are several if two ensembles have equal paths, or if two clients of one ensemble hold a lock
// as readers.
func allHeld(ctx context.Context, p *ephemeral.Parent, kind string) iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		for b := backingOf(ctx); b != nil; b = backingOf(b.Context) {
			n := b.grant.Node
			if n.Kind == kind && n.Parent.Client.Abs(n.Parent.Path) == p.Client.Abs(p.Path) && b.hold.Err() == nil &&
				!yield(b.grant) {
				return
			}
		}
	}
}

// Above returns the grant of this client that ctx descends from, and whether it is proven now.
func Above(ctx context.Context, p *ephemeral.Parent, kind string) (*Grant, bool) {
	for g := range allHeld(ctx, p, kind) {
		if g.Node.Parent.Client.Same(p.Client) {
			return g, g.beforeDeadline()
		}
	}
	return nil, false
}

// Again returns another hold on the node of the given kind that ctx descends from, provided that node is still held and
// ctx is not done. The node is removed with the last of its holds.
func Again(ctx context.Context, p *ephemeral.Parent, kind string) (*zkrecipes.Hold, bool) {
	g, ok := Above(ctx, p, kind)
	if !ok || ctx.Err() != nil {
		return nil, false
	}
	return g.addHold(ctx, p, new(backing))
}

func (g *Grant) beforeDeadline() bool { return time.Now().Before(g.Node.Session.ValidUntil()) }

// IsHeld reports whether the grant has not ended.
func (g *Grant) IsHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended && g.beforeDeadline()
}

// CheckDeadlock returns an error if a contender of the given kind would wait for a node that ctx descends from and
// whose kind is one of others: the call would wait for its own caller.
//
// For a contender that excludes its own kind, what its client knows of its own nodes is sufficient. In all other cases
// the server is queried: a node of another client may be under a parent of another ensemble, and a reader inside a
// writer gets here when its downgrade did not find the writer's node.
func CheckDeadlock(ctx context.Context, p *ephemeral.Parent, kind string, others []string) error {
	if ctx.Err() != nil {
		return nil // the acquisition reports why
	}
	exclusive := slices.Contains(others, kind)
	for _, other := range others {
		for g := range allHeld(ctx, p, other) {
			n := g.Node
			held := p.Path + strings.TrimPrefix(n.Paths[0], n.Parent.Path)
			known := exclusive && n.Parent.Client.Same(p.Client)
			if g.IsHeld() && (known || isThere(ctx, p, held, n.Czxid)) {
				return deadlock(p, held)
			}
		}
	}
	return nil
}

// CheckDeadlockBehind is CheckDeadlock for a contender that waits for one of another caller, which in turn waits for
// those ahead of it: one of them may be a node of the contender's own kind that ctx descends from.
func CheckDeadlockBehind(ctx context.Context, p *ephemeral.Parent, kind string, ahead []layout.Contender) error {
	for g := range allHeld(ctx, p, kind) {
		name := path.Base(g.Node.Paths[0])
		if g.IsHeld() && slices.ContainsFunc(ahead, func(c layout.Contender) bool { return c.Name == name }) {
			return deadlock(p, path.Join(p.Path, name))
		}
	}
	return nil
}

func deadlock(p *ephemeral.Parent, held string) error {
	return fmt.Errorf("%s: %w: the context descends from the hold %s", p.Path, zkrecipes.ErrDeadlock, held)
}

// isThere reports whether a node is known to exist. Whatever prevents an answer delays the acquisition as well.
func isThere(ctx context.Context, p *ephemeral.Parent, path string, czxid int64) bool {
	if p.Client.Sync(ctx, path) != nil {
		return false
	}
	exists, stat, err := p.Client.Exists(ctx, path)
	return err == nil && exists && stat.Czxid == czxid
}
