package main

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// copies returns the turn of a cache: some random writes below its root, a Sync, and a snapshot, which must contain
// them. Errors of the writes do not matter: their effects are in the logs of the servers. Changes are reported all the
// time.
func (w *worker) copies(ctx context.Context) (turn, error) {
	c, err := cache.Tree(w.client, w.path)
	if err != nil {
		return nil, err
	}
	go func() {
		for change, err := range c.Watch(ctx) {
			if err == nil {
				w.journal.View(changed(change))
			}
		}
	}()
	return func(ctx context.Context) error {
		op := w.journal.Call(1, false)
		defer w.orphaned(op)
		for range 1 + w.rng.IntN(3) {
			w.write(ctx)
		}
		done, _ := w.client.Set(ctx, w.path, []byte(w.id), -1) // if it fails, nothing is known to be done
		if err := c.Sync(ctx); err != nil {
			w.failed(ctx, op, err)
			return nil
		}
		entries, v := c.Snapshot()
		stuck := w.orders.holding()
		snapshot := journal.View{Zxid: done.Mzxid, Current: v.Current, AsOf: journal.At(v.AsOf)}
		for _, e := range entries {
			snapshot.Nodes = append(snapshot.Nodes, entry(e))
		}
		op.Tell(journal.Line{
			Event: check.Event{Kind: check.Granted}, Stuck: stuck != nil, Path: w.path + "/a", View: &snapshot,
		})
		w.last(ctx, stuck)
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
		return nil
	}, nil
}

// write changes a random node.
func (w *worker) write(ctx context.Context) {
	name := func() string { return "/" + string(rune('a'+w.rng.IntN(3))) }
	path := w.path + name()
	if w.rng.IntN(2) == 0 {
		path += name()
	}
	data := fmt.Append(nil, w.rng.IntN(1000))
	switch w.rng.IntN(4) {
	case 0:
		_ = w.client.CreateAll(ctx, path, data)
	case 1:
		_, _ = w.client.Set(ctx, path, data, -1)
	case 2:
		_ = w.client.Delete(ctx, path, -1)
	default: // the versions of the new node are those of the old one
		_, _ = w.client.Multi(ctx, zkrecipes.OpDelete(path, -1),
			zkrecipes.OpCreate(path, data, 0, zk.WorldACL(zk.PermAll)...))
	}
}

func changed(c cache.Change) journal.View {
	v := journal.View{Change: c.Kind.String(), Current: c.View.Current, AsOf: journal.At(c.View.AsOf)}
	if c.Entry.Path != "" {
		v.Nodes = []journal.Node{entry(c.Entry)}
	}
	return v
}

func entry(e cache.Entry) journal.Node {
	return journal.Node{Path: e.Path, Czxid: e.Czxid, Mzxid: e.Mzxid, Session: e.EphemeralOwner, Data: e.Data}
}
