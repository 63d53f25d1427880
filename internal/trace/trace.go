// Package trace calls the tracers of a client.
package trace

import (
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes"
)

// Tracers are the tracers of one client; nil if there are none. Before calling one of the hooks, check with the
// matching Observe method that it is observed.
type Tracers struct {
	all                    []*zkrecipes.Tracer
	holds, state, requests bool
	connects               bool
}

// With returns the tracers with another one added.
//
// Errors: the tracer is nil, or has no hook.
func (t *Tracers) With(tracer *zkrecipes.Tracer) (*Tracers, error) {
	if tracer == nil {
		return nil, errors.New("tracer: nil")
	}
	holds := tracer.AcquireStart != nil || tracer.AcquireEnd != nil || tracer.HoldStart != nil || tracer.HoldEnd != nil
	if !holds && tracer.State == nil && tracer.Connect == nil && tracer.Request == nil {
		return nil, errors.New("tracer: all hooks are nil: want at least one")
	}
	var all Tracers
	if t != nil {
		all = *t
	}
	all.all = append(slices.Clip(all.all), tracer)
	all.holds = all.holds || holds
	all.state = all.state || tracer.State != nil
	all.connects = all.connects || tracer.Connect != nil
	all.requests = all.requests || tracer.Request != nil
	return &all, nil
}

// ObserveHolds reports whether any tracer observes acquisitions or holds.
func (t *Tracers) ObserveHolds() bool { return t != nil && t.holds }

// ObserveState reports whether any tracer observes the state.
func (t *Tracers) ObserveState() bool { return t != nil && t.state }

// ObserveConnects reports whether any tracer observes attempts to connect.
func (t *Tracers) ObserveConnects() bool { return t != nil && t.connects }

// ObserveRequests reports whether any tracer observes requests.
func (t *Tracers) ObserveRequests() bool { return t != nil && t.requests }

// AcquireStart passes the call on, like the methods below. Each tracer gets the context that the one before it
// returned.
func (t *Tracers) AcquireStart(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
	for _, tracer := range t.all {
		if tracer.AcquireStart != nil {
			ctx = tracer.AcquireStart(ctx, a) //nolint:fatcontext // each tracer adds its own
		}
	}
	return ctx
}

// AcquireEnd is the counterpart of AcquireStart.
func (t *Tracers) AcquireEnd(ctx context.Context, a zkrecipes.AcquireEnd) {
	for _, tracer := range t.all {
		if tracer.AcquireEnd != nil {
			tracer.AcquireEnd(ctx, a)
		}
	}
}

// HoldStart returns the context of the hold.
func (t *Tracers) HoldStart(ctx context.Context, h zkrecipes.HoldStart) context.Context {
	for _, tracer := range t.all {
		if tracer.HoldStart != nil {
			ctx = tracer.HoldStart(ctx, h) //nolint:fatcontext // as above
		}
	}
	return ctx
}

// HoldEnd is the counterpart of HoldStart.
func (t *Tracers) HoldEnd(ctx context.Context, h zkrecipes.HoldEnd) {
	for _, tracer := range t.all {
		if tracer.HoldEnd != nil {
			tracer.HoldEnd(ctx, h)
		}
	}
}

// State reports a state change.
func (t *Tracers) State(c zkrecipes.StateChange) {
	for _, tracer := range t.all {
		if tracer.State != nil {
			tracer.State(c)
		}
	}
}

// Connect reports an attempt to connect.
func (t *Tracers) Connect(c zkrecipes.Connect) {
	for _, tracer := range t.all {
		if tracer.Connect != nil {
			tracer.Connect(c)
		}
	}
}

// Request reports a request.
func (t *Tracers) Request(ctx context.Context, r zkrecipes.Request) {
	for _, tracer := range t.all {
		if tracer.Request != nil {
			tracer.Request(ctx, r)
		}
	}
}
