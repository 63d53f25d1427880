package main

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// updates returns the turn of a value that is a number: it is incremented, by Update or by CompareAndSet, and watched
// all the time.
func (w *worker) updates(ctx context.Context) (turn, error) {
	v, err := value.New(w.client, w.path, value.AtomicLong())
	if err != nil {
		return nil, err
	}
	go func() {
		for now, err := range v.Watch(ctx) {
			if err == nil {
				w.journal.View(number(w.path, now))
			}
		}
	}()
	return func(ctx context.Context) error {
		return w.add(ctx, 1, func(ctx context.Context, one int64) (int64, error) {
			if w.rng.IntN(2) == 0 {
				sum, _, err := v.Update(ctx, func(old int64) (int64, error) { return old + one, nil })
				return sum, err
			}
			old, version, err := v.Get(ctx)
			if err != nil {
				return 0, err
			}
			_, err = v.CompareAndSet(ctx, version, old+one)
			return old + one, err
		})
	}, nil
}

// additions returns the turn of a counter: a random increment, by Add or by Next.
func (w *worker) additions() (turn, error) {
	c, err := value.NewCounter(w.client, w.path, value.AtomicLong())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return w.add(ctx, 1+w.rng.IntN(9), func(ctx context.Context, n int64) (int64, error) {
			if w.rng.IntN(2) == 0 {
				return c.Add(ctx, n)
			}
			first, err := c.Next(ctx, n)
			return first + n - 1, err
		})
	}, nil
}

// add is a turn that adds n to a number. The weight of its operation is n.
func (w *worker) add(ctx context.Context, n int, sum func(context.Context, int64) (int64, error)) error {
	op := w.journal.Call(n, false)
	defer w.orphaned(op)
	got, err := sum(ctx, int64(n))
	switch {
	case err == nil:
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		w.failed(ctx, op, err)
		return nil
	default:
		op.Tell(journal.Line{Event: check.Event{Kind: check.Failed}, Reason: err.Error()})
		return nil
	}
	stuck := w.orders.holding()
	op.Tell(journal.Line{
		Event: check.Event{Kind: check.Granted}, Session: w.client.Status().Session, Number: got,
		Stuck: stuck != nil, Path: w.path,
	})
	w.last(ctx, stuck)
	op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
	return nil
}

func number(path string, v value.View[int64]) journal.View {
	now := journal.View{Current: v.Current, AsOf: journal.At(v.AsOf)}
	if v.Version.Exists() {
		now.Nodes = []journal.Node{{
			Path: path, Czxid: v.Version.Czxid, Mzxid: v.Version.Mzxid,
			Data: binary.BigEndian.AppendUint64(nil, uint64(v.Value)),
		}}
	}
	return now
}
