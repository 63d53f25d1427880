// Package worker is an example of a program to test: it ships orders while it holds a lock.
package worker

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// Worker ships one order a second while it holds the lock.
type Worker struct {
	Lock *mutex.Mutex
	Ship func(ctx context.Context, token zkrecipes.Token) error
}

// Run works until ctx is done. If the lock is lost, Run waits for it again.
func (w *Worker) Run(ctx context.Context) error { return w.Lock.Run(ctx, w.Hold) }

// Hold ships orders until ctx is done, which is no later than the end of the hold.
func (w *Worker) Hold(ctx context.Context, h *zkrecipes.Hold) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // checks the clock: the process may have been frozen
			return context.Cause(ctx)
		}
		if err := w.Ship(ctx, h.Token()); err != nil {
			return err
		}
	}
}
