package listing

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
)

// Program is a program that is listed while it serves.
type Program struct {
	Child       *child.Child
	Listing     *Listing
	Signals     *signals.Signals
	Signal      os.Signal     // asks the program to stop
	Drain       time.Duration // between taking the program out and asking it to stop
	StopTimeout time.Duration // between asking it to stop and killing it; 0 means never
	Log         *slog.Logger
}

// Run returns when the program and everything that it has started have ended and it is no longer listed. A signal that
// asks a process to stop takes the program out first, and is passed on after the drain. A second one skips the wait.
// One that arrives when the program has ended ends the wait for the servers.
func (p *Program) Run(ctx context.Context) child.Status {
	listed, takeOut := context.WithCancel(ctx)
	defer takeOut()
	patience, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	out := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(out)
		p.Listing.Run(listed, patience)
	})
	defer running.Wait()
	var drained, overdue <-chan time.Time
	var away <-chan struct{} // closed when the program is off the list, once it has to stop
	var last time.Time       // when a signal asked the program to stop
	for asked := 0; ; {
		select {
		case <-p.Child.Done():
			p.Log.Info("the program has ended", "status", p.Child.Status().Code)
			takeOut()
			asked, done := p.Signals.ContextAfter(ctx, last)
			defer done()
			defer context.AfterFunc(asked, func() { giveUp(context.Cause(asked)) })()
			running.Wait()
			p.end()
			return p.Child.Status()
		case one := <-p.Signals.Arrived:
			switch {
			case !stops(one):
				p.pass(one)
				continue
			case time.Since(last) < signals.AsOne:
				continue
			case asked == 0:
				p.Log.Info("taking the program out before it is stopped", "signal", one.String(), "drain", p.Drain)
				takeOut()
				away = out
			case asked == 1:
				overdue = p.stop()
				away, drained = nil, nil
			default:
				_ = p.Child.Kill() // repeated at the end, until nothing is left
			}
			asked, last = asked+1, time.Now()
		case <-away:
			away, drained = nil, time.After(p.Drain)
		case <-drained:
			overdue = p.stop()
			asked, drained = max(asked, 2), nil
		case <-overdue:
			p.Log.Warn("killed the program: --stop-timeout has elapsed")
			_ = p.Child.Kill() // repeated at the end, until nothing is left
			overdue = nil
		}
	}
}

// stops reports whether a signal asks the program to stop. Other signals may mean anything to it.
func stops(one os.Signal) bool {
	return slices.Contains([]os.Signal{os.Interrupt, syscall.SIGTERM}, one)
}

func (p *Program) pass(one os.Signal) {
	if one == signals.Continue {
		return // zkr itself continues
	}
	if err := p.Child.Forward(one); err != nil {
		p.Log.Warn("cannot forward a signal", "signal", one.String(), "error", err)
	}
}

// stop asks the program to stop. It returns a channel that fires when that has taken too long.
func (p *Program) stop() <-chan time.Time {
	if err := p.Child.Stop(p.Signal); err != nil {
		p.Log.Warn("cannot signal the program", "error", err)
	}
	if p.StopTimeout == 0 {
		return nil
	}
	return time.After(p.StopTimeout)
}

// end kills what the program has left behind. It gives up after two seconds.
func (p *Program) end() {
	defer p.Child.Close()
	for limit := time.Now().Add(2 * time.Second); p.Child.Left() > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			p.Log.Warn("the program left processes behind that cannot be killed", "processes", p.Child.Left())
			return
		}
		_ = p.Child.Kill() // a process may have been starting another one
	}
}
