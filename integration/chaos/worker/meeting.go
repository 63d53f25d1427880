package main

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// meetings returns the turn of a double barrier: the worker enters, and leaves with the others of its round. If the
// order is "rest", it stops waiting to enter, because the others may already be resting.
func (w *worker) meetings() (turn, error) {
	d, err := barrier.NewDouble(w.client, w.path, w.limit)
	return func(ctx context.Context) error {
		op := w.journal.Call(1, false)
		defer w.orphaned(op)
		entering, stop := w.orders.untilRest(ctx)
		defer stop()
		r, err := d.Enter(entering)
		if err != nil {
			w.failed(ctx, op, err)
			return nil
		}
		stuck := w.orders.holding()
		op.Tell(journal.Line{
			Event: check.Event{Kind: check.Granted, Token: r.Token()}, Session: w.client.Status().Session, Number: r.Number(),
			Stuck: stuck != nil, Path: r.Path(),
		})
		over := released(ctx, stuck, w.length())
		select {
		case <-over:
		case <-r.Done():
			tellLoss(op, r.Err())
			<-over
		}
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
		if err := r.Leave(ctx); err != nil && !errors.Is(err, zkrecipes.ErrLost) {
			return err
		}
		return nil
	}, err
}
