package main

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// presences returns the turn of a persistent node: the node is kept for a while, its data is set, and it is closed. The
// data is set only when the node exists again, however the turn went. The state is reported at every change, and all
// the time.
func (w *worker) presences() turn {
	return func(ctx context.Context) error {
		op := w.journal.Call(1, false)
		defer w.orphaned(op)
		n, err := node.New(w.client, w.path, []byte(w.id))
		if err != nil {
			return err
		}
		var watching sync.WaitGroup
		defer watching.Wait()
		following, stop := context.WithCancel(ctx)
		defer stop()
		watching.Go(func() {
			for s, err := range n.Watch(following) {
				if err != nil {
					return // it has ended, so the last view remains
				}
				op.View(w.state(s))
			}
		})
		watching.Go(func() {
			for following.Err() == nil {
				op.View(w.state(n.State()))
				pause(following, 100*time.Millisecond)
			}
		})
		if err := n.Ready(ctx); err != nil {
			w.failed(ctx, op, err)
			return w.gone(ctx, op, n)
		}
		stuck := w.orders.holding()
		op.Tell(journal.Line{
			Event: check.Event{Kind: check.Granted}, Session: w.client.Status().Session, Stuck: stuck != nil, Path: n.Path(),
		})
		w.last(ctx, stuck)
		if err := n.Set(ctx, []byte(w.id+" again")); err != nil {
			return err
		}
		return w.gone(ctx, op, n)
	}
}

// gone closes the node, and reports when it is gone.
func (w *worker) gone(ctx context.Context, op *journal.Op, n *node.Node) error {
	if err := n.Close(ctx); err != nil {
		return err
	}
	op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
	return nil
}

func (w *worker) state(s node.State) journal.View {
	v := journal.View{Current: s.Current, AsOf: journal.At(s.AsOf)}
	if s.Exists {
		v.Nodes = []journal.Node{{Path: w.path, Czxid: s.Czxid, Session: s.Session}}
	}
	return v
}
