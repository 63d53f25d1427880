// Package trace has the tracers of a client, sorted by what they observe.
package trace

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// Tracers are the tracers of one client. The nil pointer is none. Ask the methods that begin with Observe before the others.
type Tracers struct {
	acquire []zkrecipes.AcquireTracer
	hold    []zkrecipes.HoldTracer
	session []zkrecipes.SessionTracer
	request []zkrecipes.RequestTracer
}

// With returns the tracers with another one.
//
// Errors: it implements none of the interfaces.
func (t *Tracers) With(tracer zkrecipes.Tracer) (*Tracers, error) {
	var all Tracers
	if t != nil {
		all = *t
	}
	acquire, acquires := tracer.(zkrecipes.AcquireTracer)
	hold, holds := tracer.(zkrecipes.HoldTracer)
	session, sessions := tracer.(zkrecipes.SessionTracer)
	request, requests := tracer.(zkrecipes.RequestTracer)
	if acquires {
		all.acquire = append(all.acquire, acquire)
	}
	if holds {
		all.hold = append(all.hold, hold)
	}
	if sessions {
		all.session = append(all.session, session)
	}
	if requests {
		all.request = append(all.request, request)
	}
	if !acquires && !holds && !sessions && !requests {
		return nil, fmt.Errorf("tracer: %T implements none of the interfaces AcquireTracer, HoldTracer, SessionTracer and "+
			"RequestTracer: check the signatures of its methods, and whether it must be a pointer", tracer)
	}
	return &all, nil
}

// ObserveHolds reports whether a tracer wants to know of acquisitions or holds.
func (t *Tracers) ObserveHolds() bool { return t != nil && len(t.acquire)+len(t.hold) > 0 }

// ObserveState reports whether a tracer wants to know of the state.
func (t *Tracers) ObserveState() bool { return t != nil && len(t.session) > 0 }

// ObserveRequests reports whether a tracer wants to know of requests.
func (t *Tracers) ObserveRequests() bool { return t != nil && len(t.request) > 0 }

// AcquireStart passes the call on, as the methods below do. Each tracer gets the context of the one before.
func (t *Tracers) AcquireStart(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
	for _, tracer := range t.acquire {
		ctx = tracer.TraceAcquireStart(ctx, a) //nolint:fatcontext // each tracer adds its own
	}
	return ctx
}

// AcquireEnd is the end of AcquireStart.
func (t *Tracers) AcquireEnd(ctx context.Context, a zkrecipes.AcquireEnd) {
	for _, tracer := range t.acquire {
		tracer.TraceAcquireEnd(ctx, a)
	}
}

// HoldStart returns the context of the hold.
func (t *Tracers) HoldStart(ctx context.Context, h zkrecipes.HoldStart) context.Context {
	for _, tracer := range t.hold {
		ctx = tracer.TraceHoldStart(ctx, h) //nolint:fatcontext // as above
	}
	return ctx
}

// HoldEnd is the end of HoldStart.
func (t *Tracers) HoldEnd(ctx context.Context, h zkrecipes.HoldEnd) {
	for _, tracer := range t.hold {
		tracer.TraceHoldEnd(ctx, h)
	}
}

// State tells of a change.
func (t *Tracers) State(c zkrecipes.StateChange) {
	for _, tracer := range t.session {
		tracer.TraceState(c)
	}
}

// Request tells of a request.
func (t *Tracers) Request(ctx context.Context, r zkrecipes.Request) {
	for _, tracer := range t.request {
		tracer.TraceRequest(ctx, r)
	}
}
