// Package signals catches the signals that zkr handles, and passes on.
package signals

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// Signals are what zkr handles, from the first moment on: as process 1 of a container it would not get them otherwise.
type Signals struct{ Arrived chan os.Signal }

// Catch catches the signals of Handled that are not ignored, as nohup and the shell's & ask for.
func Catch() *Signals {
	s := &Signals{make(chan os.Signal, 16)}
	var caught []os.Signal
	for _, one := range Handled {
		if !signal.Ignored(one) {
			caught = append(caught, one)
		}
	}
	if len(caught) > 0 {
		signal.Notify(s.Arrived, caught...)
	}
	return s
}

// Stops reports whether a signal ends a process that does not handle it.
func Stops(one os.Signal) bool { return slices.Contains(stopping, one) }

// Context returns a context that ends with the first signal that asks zkr to stop, with an *exit.Stopped as its cause. After
// done, signals are left in the channel. It waits until no goroutine takes them any more.
func (s *Signals) Context(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case one := <-s.Arrived:
				if Stops(one) {
					cancel(&exit.Stopped{Signal: one})
					return
				}
			case <-quit:
				return
			}
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(quit)
		running.Wait()
		cancel(nil)
	})
}
