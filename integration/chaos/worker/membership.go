package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// memberships returns the turn of a group: the worker joins, sets its payload, and leaves. It watches all the time. The
// process that replaces a killed one has its id.
func (w *worker) memberships(ctx context.Context) (turn, error) {
	g, err := group.New(w.client, w.path)
	if err != nil {
		return nil, err
	}
	go func() {
		for v, err := range g.Watch(ctx, group.WithPayloads()) {
			if err == nil {
				w.journal.View(view(v))
			}
		}
	}()
	id, _, _ := strings.Cut(w.id, ".")
	payload := func(n int) []byte { return fmt.Appendf(nil, "%s %d", w.id, n) }
	return func(ctx context.Context) error {
		op := w.journal.Call(1, false)
		defer w.orphaned(op)
		m, err := g.Join(ctx, id, payload(1), group.WithWait())
		if err != nil {
			w.failed(ctx, op, err)
			return nil
		}
		stuck := w.orders.holding()
		op.Tell(journal.Line{
			Event: check.Event{Kind: check.Granted}, Session: w.client.Status().Session, Stuck: stuck != nil, Path: m.Path(),
		})
		for n := range 2 {
			if err := m.Set(ctx, payload(2+n)); err != nil {
				return err
			}
			if n == 0 {
				w.last(ctx, stuck)
			}
		}
		if err := m.Close(ctx); err != nil {
			return err
		}
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
		return nil
	}, nil
}

func view(v group.View) journal.View {
	list := journal.View{Zxid: v.Zxid, Current: v.Current, AsOf: journal.At(v.AsOf)}
	for _, m := range v.Members {
		list.Nodes = append(list.Nodes, journal.Node{Path: m.Path, Czxid: m.Czxid, Session: m.Session, Data: m.Data})
	}
	return list
}
