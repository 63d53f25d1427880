package hold

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/trace"
)

// Attempt is one acquisition observed by a tracer, or nil without one. Only its caller's goroutine may use it.
type Attempt struct {
	tracers  *trace.Tracers
	ctx      context.Context //nolint:containedctx // an attempt lives as long as one call
	start    zkrecipes.AcquireStart
	began    time.Time
	granted  time.Time // the latest grant, if any
	position int
}

// Begin notifies the tracers that an acquisition begins. It returns the context to use from here.
func Begin(ctx context.Context, client *client.Client, start zkrecipes.AcquireStart) (context.Context, *Attempt) {
	tracers := client.Tracers()
	if !tracers.ObserveHolds() {
		return ctx, nil
	}
	a := &Attempt{tracers: tracers, began: time.Now(), start: start}
	a.ctx = tracers.AcquireStart(ctx, start)
	return a.ctx, a
}

// At records how many contenders are ahead when the caller first sees that. Later calls have no effect.
func (a *Attempt) At(ahead int) {
	if a != nil && a.position == 0 {
		a.position = ahead + 1
	}
}

// End reports to the tracers how the acquisition ended, and returns its results.
func (a *Attempt) End(h *zkrecipes.Hold, err error) (*zkrecipes.Hold, error) {
	if a == nil {
		return h, err
	}
	e := zkrecipes.AcquireEnd{AcquireStart: a.start, Position: a.position, Err: err}
	if h != nil {
		e.Token, e.Waited = h.Token(), a.granted.Sub(a.began)
	} else {
		e.Waited = time.Since(a.began)
	}
	a.tracers.AcquireEnd(a.ctx, e)
	return h, err
}

// tracedHold is a grant that a tracer has seen.
type tracedHold struct {
	tracers *trace.Tracers
	ctx     context.Context //nolint:containedctx // carried from the start to the end, which come from different callers
	start   zkrecipes.HoldStart
	since   time.Time
}

// traceStart notifies the tracers that g is granted, and returns the context for its hold. The grant may be lost at any
// moment once its loss callback is set, so the end may be due before HoldStart has returned. In that case the caller's
// traceEnd reports it.
func (a *Attempt) traceStart(ctx context.Context, g *Grant) context.Context {
	if a == nil {
		return ctx
	}
	first := &backing{grant: g, through: g.Node.Parent}
	a.granted = time.Now()
	t := &tracedHold{tracers: a.tracers, since: a.granted, start: zkrecipes.HoldStart{
		Recipe: a.start.Recipe, Name: a.start.Name, Queue: a.start.Path, Path: first.Path(), Token: g.Token,
		ValidUntil: g.Node.Session.ValidUntil,
	}}
	t.ctx = a.tracers.HoldStart(ctx, t.start)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.traced = t
	return t.ctx
}

// traceEnd notifies the tracers that the grant has ended. The first call that finds a started trace reports it.
func (g *Grant) traceEnd() {
	if !g.Node.Parent.Client.Tracers().ObserveHolds() {
		return
	}
	g.mu.Lock()
	t, why := g.traced, g.lost
	g.traced = nil
	g.mu.Unlock()
	if t == nil {
		return
	}
	e := zkrecipes.HoldEnd{HoldStart: t.start, Held: time.Since(t.since)}
	if why != nil {
		lost := *why
		lost.Path = t.start.Path
		e.Lost = &lost
		e.Held = max(0, why.At.Sub(t.since)) // a process that was frozen reports the loss later
	}
	t.tracers.HoldEnd(t.ctx, e)
}
