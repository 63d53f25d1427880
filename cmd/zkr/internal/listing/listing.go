// Package listing registers a program as an instance of a service while it serves.
package listing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/health"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// Listing keeps a program listed while its check passes.
type Listing struct {
	health.Probe // the program is taken out when it is unhealthy
	// Farewell bounds the wait for the removal of a node. The servers remove the node no later than at the end of the
	// session.
	Farewell time.Duration
	Register func(ctx context.Context) (*discovery.Registration, error)
	Log      *slog.Logger

	said string // error of the last attempt
}

// Run lists the program while its check passes, and removes it once the check has failed often enough, until ctx is
// done. Run then removes the program, unless it cannot reach a server within Farewell, or before patience is done.
func (l *Listing) Run(ctx, patience context.Context) {
	var at *attempt
	defer func() { l.takeOut(patience, at) }()
	failed, ticker := 0, time.NewTicker(l.Interval)
	defer ticker.Stop()
	for {
		err := l.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failed = 0
		default:
			if failed++; failed == 1 {
				l.Log.Info("the check failed", "listed", at != nil, "error", err)
			}
		}
		switch {
		case err == nil && (at == nil || at.failed()):
			at = l.begin(ctx)
		case at != nil && failed >= l.Failures, at != nil && err != nil && !at.listed():
			l.takeOut(patience, at)
			at = nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// attempt is a registration, or an attempt to make one.
type attempt struct {
	cancel       context.CancelFunc
	done         chan struct{}
	registration *discovery.Registration // set once done is closed
	err          error
}

// begin registers in the background, so that checks continue.
func (l *Listing) begin(ctx context.Context) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	at := &attempt{cancel: cancel, done: make(chan struct{})}
	go func() { // ends with ctx; takeOut waits for it
		defer close(at.done)
		defer cancel() // ctx bounds the wait, not the registration
		at.registration, at.err = l.Register(ctx)
		switch {
		case at.err == nil:
			l.Log.Info("listed", "path", at.registration.Path(), "at", at.registration.Instance().HostPort())
			l.said = ""
		case !errors.Is(at.err, context.Canceled) && l.said != at.err.Error():
			l.said = at.err.Error()
			l.Log.Warn("cannot list the program, retrying", "error", at.err)
		}
	}()
	return at
}

func (a *attempt) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *attempt) listed() bool { return a.over() && a.err == nil }
func (a *attempt) failed() bool { return a.over() && a.err != nil }

// takeOut ends an attempt. It does nothing for nil.
func (l *Listing) takeOut(patience context.Context, a *attempt) {
	if a == nil {
		return
	}
	a.cancel()
	<-a.done
	if a.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(patience, l.Farewell)
	defer cancel()
	if err := a.registration.Close(ctx); err != nil {
		l.Log.Warn("no server has confirmed yet that the program was taken out", "path", a.registration.Path(), "error", err)
		return
	}
	l.Log.Info("taken out", "path", a.registration.Path())
}
