package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
)

// signals are what zkr handles, from the first moment on: as process 1 of a container it would not get them otherwise.
type signals struct{ arrived chan os.Signal }

func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 16)}
	var caught []os.Signal
	for _, one := range handled {
		if !signal.Ignored(one) { // as nohup and the shell's & ask for
			caught = append(caught, one)
		}
	}
	if len(caught) > 0 {
		signal.Notify(s.arrived, caught...)
	}
	return s
}

// context returns a context that ends with the first signal that asks zkr to stop, with a *stopped as its cause. After done,
// signals are left in the channel. It waits until no goroutine takes them any more.
func (s *signals) context(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case one := <-s.arrived:
				if slices.Contains(stopping, one) {
					cancel(&stopped{one})
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
