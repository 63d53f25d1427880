// Package signals catches the signals that zkr handles and forwards.
package signals

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// Signals receives the signals that zkr handles. They are caught from the start: as process 1 of a container, zkr would
// not receive them otherwise.
type Signals struct{ Arrived chan os.Signal }

// Catch catches the signals in Handled, except those that are ignored, as nohup and the shell's & arrange.
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

// AsOne is how soon signals follow each other that count as one: timeout(1) signals zkr and then its group.
const AsOne = 100 * time.Millisecond

// Stops reports whether a signal ends a process that does not handle it.
func Stops(one os.Signal) bool { return slices.Contains(stopping, one) }

// Context returns a context that ends with the first signal that asks zkr to stop, with an *exit.Stopped as its cause.
// A later one ends zkr, which may be unable to stop, for example because nothing reads what it prints. Before done,
// no program runs. After done, signals stay in the channel. done waits until no goroutine receives them anymore.
func (s *Signals) Context(parent context.Context) (ctx context.Context, done func()) {
	return s.ContextAfter(parent, time.Time{})
}

// ContextAfter is Context once no program runs any more. A signal that counts as one with the last, at the given time,
// does not end the context; if kinds are given, only these signals count as one with the last.
func (s *Signals) ContextAfter(
	parent context.Context, last time.Time, kinds ...os.Signal,
) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case one := <-s.Arrived:
				asOne := time.Since(last) < AsOne && (len(kinds) == 0 || slices.Contains(kinds, one))
				if Stops(one) && !asOne {
					cancel(&exit.Stopped{Signal: one})
					time.AfterFunc(AsOne, func() { signal.Reset(stopping...) })
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
