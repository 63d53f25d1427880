package cache

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Kind is the kind of a [Change].
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1
	Updated      // the data was set, or an error appeared or disappeared
	Deleted
	Current // the cache is complete and follows the server: all changes up to View.AsOf have been yielded
	Behind  // the cache may be out of date: anything may have changed since View.AsOf
)

// String returns the kind as one lower-case word.
func (k Kind) String() string {
	switch k {
	case Created:
		return "created"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	case Current:
		return "current"
	case Behind:
		return "behind"
	default:
		return fmt.Sprintf("Kind(%d)", int(k))
	}
}

// Change is one difference between what the caller has received and what is in the cache.
type Change struct {
	Kind  Kind
	Entry Entry // the node as it is now; only its path, Czxid and Mzxid for Deleted; empty for Current and Behind
	View  View  // for Current and Behind
}

// Watch yields the existing nodes as Created, and then what changes, new nodes included. The cache never waits for the
// caller. If the caller is slow, intermediate states are skipped, but never the latest one, because for each path the
// cache remembers at most what the caller last received. Paths are yielded in the order of their first unseen change. A
// node that was deleted and recreated is yielded as Deleted and then Created.
//
// Iteration ends as described under "Conventions" in package [zkrecipes]; the final error, if any, is why the cache has
// stopped.
func (c *Cache) Watch(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if ctx == nil {
			yield(Change{}, fmt.Errorf("watch cache %s: %w", c.Path(), session.ErrNoContext))
			return
		}
		r := c.join()
		defer c.leave(r)
		for ctx.Err() == nil {
			changes, look, err := c.take(r)
			for _, change := range changes {
				if ctx.Err() != nil || !yield(change, nil) {
					return
				}
			}
			switch {
			case len(changes) > 0:
			case err != nil:
				yield(Change{}, fmt.Errorf("watch cache %s: %w", c.Path(), err))
				return
			default:
				select {
				case <-r.wake:
				case <-look:
				case <-ctx.Done():
				}
			}
		}
	}
}

// reader is one iteration of Watch. Its fields are guarded by Cache.mu.
type reader struct {
	wake chan struct{} // has room for one

	cursor string // at first all nodes are yielded, in order; this is the latest of them
	passed bool   // all nodes have been yielded

	told    map[string]version // what was last yielded for the paths that have changed since
	order   []string           // the same paths, in the order of their first change, and some that were forgotten
	current bool               // the last state that the caller saw was Current
}

// version is what a caller has seen of a node.
type version struct {
	known, failed bool
	czxid, mzxid  int64
}

func (n *node) told() version { return version{n.known, n.marks&failed != 0, n.czxid, n.mzxid} }

func (c *Cache) join() *reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &reader{wake: make(chan struct{}, 1), told: map[string]version{}}
	c.readers[r] = struct{}{}
	return r
}

func (c *Cache) leave(r *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.readers, r)
}

// tellReaders wakes the readers. It is called with mu held.
func (c *Cache) tellReaders() {
	for r := range c.readers {
		r.poke()
	}
}

func (r *reader) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// note records for the readers what a node is, before it changes or disappears.
func (c *Cache) note(n *node, goes bool) {
	if len(c.readers) == 0 {
		return
	}
	path := c.engine.nodes.pathOf(n)
	for r := range c.readers {
		r.note(path, n.told())
		if goes {
			r.forget(path)
		}
	}
}

func (r *reader) note(path string, was version) {
	r.poke()
	if !r.passed && before(r.cursor, path) {
		return // it is yielded when the cursor reaches it
	}
	if _, ok := r.told[path]; !ok {
		r.told[path] = was
		r.order = append(r.order, path)
	}
}

// forget drops a path whose node is gone if the caller has not seen the node. Otherwise names that are used only once
// would pile up for a slow caller.
func (r *reader) forget(path string) {
	if was, ok := r.told[path]; !ok || was.known {
		return
	}
	delete(r.told, path)
	if len(r.order) <= 2*len(r.told)+64 {
		return
	}
	kept := make(map[string]bool, len(r.told))
	r.order = slices.DeleteFunc(r.order, func(path string) bool {
		_, ok := r.told[path]
		again := kept[path]
		kept[path] = true
		return !ok || again
	})
}

// take returns what a reader must get next, or why nothing more will come, or when to check again even though nothing
// wakes the reader.
func (c *Cache) take(r *reader) (changes []Change, look <-chan time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	view := c.view()
	if r.current && !view.Current {
		r.current = false
		return []Change{{Kind: Behind, View: view}}, nil, nil
	}
	changes = r.next(&c.engine.nodes)
	if len(changes) == 0 && view.Current && !r.current {
		r.current = true
		changes = []Change{{Kind: Current, View: view}}
	}
	if len(changes) == 0 && c.engine.rounds.caughtUp {
		look = time.After(c.engine.feed.LookAgain())
	}
	return changes, look, c.engine.err
}

func (r *reader) next(t *nodes) []Change {
	if !r.passed {
		if n := t.after(r.cursor); n != nil {
			r.cursor = t.pathOf(n)
			return []Change{{Kind: Created, Entry: t.entry(n, r.cursor)}}
		}
		r.passed = true
	}
	for len(r.order) > 0 {
		path := r.order[0]
		was, ok := r.told[path]
		r.order = r.order[1:]
		if !ok {
			continue // forgotten, or yielded already
		}
		delete(r.told, path)
		if changes := t.difference(path, was); len(changes) > 0 {
			return changes
		}
	}
	if r.order != nil {
		r.order, r.told = nil, map[string]version{} // a map never shrinks
	}
	return nil
}

// after returns the node that is yielded after the one at path; "" is before all.
func (t *nodes) after(path string) *node {
	if path == "" && t.root.known {
		return t.root
	}
	if path == "" {
		path = t.path
	}
	return t.next(path)
}

// difference returns the changes to a path since a caller last saw it.
func (t *nodes) difference(path string, was version) []Change {
	var now version
	n := t.find(path)
	if n != nil {
		now = n.told()
	}
	deleted := Change{Kind: Deleted, Entry: Entry{Path: path, Stat: zk.Stat{Czxid: was.czxid, Mzxid: was.mzxid}}}
	switch {
	case was == now:
		return nil
	case !now.known:
		return []Change{deleted}
	case !was.known:
		return []Change{{Kind: Created, Entry: t.entry(n, path)}}
	case was.czxid != now.czxid && was.czxid != 0: // it is 0 if the node has only been unreadable
		return []Change{deleted, {Kind: Created, Entry: t.entry(n, path)}}
	default:
		return []Change{{Kind: Updated, Entry: t.entry(n, path)}}
	}
}
