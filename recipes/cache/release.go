package cache

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// needs reports which watches of a path the cache has, or is requesting.
func (c *Cache) needs(path string) (ofData, ofList bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := &c.engine.nodes
	n := t.find(path)
	if n == nil {
		return false, false
	}
	needs := func(p part) bool {
		return *p.state()&asked != 0 || p == t.rootData() || t.watched(p) && !t.hasFailed(p)
	}
	return needs(part{n, data}), needs(part{n, list})
}

// release removes the watches, one node after another.
func (c *Cache) release(ctx context.Context, s *session.Session, f *session.Feed) {
	e := c.engine
	var nodes []*node
	e.nodes.root.all(func(n *node) {
		if n.known || n == e.nodes.root || (n.parts[data]|n.parts[list])&asked != 0 {
			nodes = append(nodes, n)
		}
	})
	e.epoch++ // earlier requests no longer matter
	e.inflight = 0
	window := 1 // a server that does not know the request hangs up
	for {
		for _, n := range f.Take() {
			r, ok := n.For.(*request)
			switch {
			case n.Kind != session.Answered || !ok || r.epoch != e.epoch:
			case n.Err != nil && n.Zxid == 0, errors.Is(n.Err, zkrecipes.CodeUnimplemented):
				return // the connection is gone, or the server does not support it
			case session.NotExecuted(n.Err):
				e.inflight--
				nodes = append(nodes, r.part.node)
			default:
				e.inflight--
				window = c.config.window
			}
		}
		b := f.Batch()
		for len(nodes) > 0 && e.inflight+b.Len() < window {
			b.RemoveWatches(e.nodes.pathOf(nodes[0]), &request{kind: removing, epoch: e.epoch, part: part{node: nodes[0]}})
			nodes = nodes[1:]
		}
		e.inflight += b.Len()
		if e.inflight == 0 || b.Len() > 0 && !b.Send() {
			return
		}
		select {
		case <-f.Wake():
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
