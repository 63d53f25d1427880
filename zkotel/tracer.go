package zkotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
)

// Option configures [New].
type Option func(*config) error

type config struct {
	provider trace.TracerProvider
	requests bool
}

// WithTracerProvider sets the provider of the tracer; the default is [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p == nil {
			return errors.New("tracer provider: nil")
		}
		c.provider = p
		return nil
	}
}

// WithRequests creates spans for requests, too; by default there are none.
func WithRequests() Option {
	return func(c *config) error {
		c.requests = true
		return nil
	}
}

// New returns a tracer for conn.WithTracer.
//
// Errors: those of the options.
func New(opts ...Option) (*zkrecipes.Tracer, error) {
	c := config{provider: otel.GetTracerProvider()}
	if err := recipe.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("zkotel: %w", err)
	}
	t := &tracer{c.provider.Tracer("github.com/zkrecipes/zkrecipes/zkotel")}
	hooks := &zkrecipes.Tracer{
		AcquireStart: t.acquireStart, AcquireEnd: t.acquireEnd, HoldStart: t.holdStart,
		HoldEnd: t.holdEnd,
	}
	if c.requests {
		hooks.Request = t.request
	}
	return hooks, nil
}

// tracer creates spans for acquisitions, holds and requests.
type tracer struct{ tracer trace.Tracer }

// acquireKey and holdKey are the context keys of this tracer's spans. Another tracer may have its own in the context.
type (
	acquireKey struct{ *tracer }
	holdKey    struct{ *tracer }
)

// acquisition is what a hold needs to know of its acquisition.
type acquisition struct{ span, parent trace.Span }

func (t *tracer) acquireStart(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
	parent := trace.SpanFromContext(ctx)
	ctx, span := t.tracer.Start(ctx, "acquire "+a.Recipe,
		trace.WithAttributes(of(a.Recipe, a.Name, a.Path)...), trace.WithAttributes(attribute.Bool("zkrecipes.try", a.Try)))
	return context.WithValue(ctx, acquireKey{t}, acquisition{span, parent})
}

func (t *tracer) acquireEnd(ctx context.Context, a zkrecipes.AcquireEnd) {
	acquired, ok := ctx.Value(acquireKey{t}).(acquisition)
	if !ok {
		return
	}
	outcome := a.Outcome()
	acquired.span.SetAttributes(attribute.String("zkrecipes.outcome", outcome),
		attribute.Int("zkrecipes.position", a.Position))
	switch outcome {
	case "granted":
		acquired.span.SetAttributes(token(a.Token))
	case "closed", "failed":
		acquired.span.SetStatus(codes.Error, a.Err.Error())
	}
	acquired.span.End()
}

// holdStart starts the span of a hold. The hold outlives its acquisition, so the two spans are siblings.
func (t *tracer) holdStart(ctx context.Context, h zkrecipes.HoldStart) context.Context {
	attributes := append(of(h.Recipe, h.Name, h.Queue), token(h.Token), attribute.String("zkrecipes.contender", h.Path))
	options := []trace.SpanStartOption{trace.WithAttributes(attributes...)}
	if acquired, ok := ctx.Value(acquireKey{t}).(acquisition); ok {
		ctx = trace.ContextWithSpan(ctx, acquired.parent)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: acquired.span.SpanContext()}))
	}
	ctx, span := t.tracer.Start(ctx, "hold "+h.Recipe, options...)
	return context.WithValue(ctx, holdKey{t}, span)
}

func (t *tracer) holdEnd(ctx context.Context, h zkrecipes.HoldEnd) {
	span, ok := ctx.Value(holdKey{t}).(trace.Span)
	if !ok {
		return
	}
	outcome := "released"
	if h.Lost != nil {
		outcome = h.Lost.Reason.String()
		span.SetStatus(codes.Error, h.Lost.Error())
	}
	span.SetAttributes(attribute.String("zkrecipes.outcome", outcome))
	span.End()
}

// request creates the span of a request, unless the parent has ended, such as the span of the call to Dial.
func (t *tracer) request(ctx context.Context, r zkrecipes.Request) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	_, span := t.tracer.Start(ctx, "zookeeper "+r.Op, trace.WithTimestamp(r.Sent),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "zookeeper"), attribute.String("db.operation.name", r.Op),
			attribute.String("zkrecipes.path", r.Path)))
	if r.Err != nil {
		span.SetAttributes(attribute.String("error.type", r.Code))
	}
	switch r.Code {
	case "", "no-node", "node-exists", "bad-version", "not-empty":
	default:
		span.SetStatus(codes.Error, r.Err.Error())
	}
	span.End(trace.WithTimestamp(r.Sent.Add(r.Took)))
}

// of returns the attributes that distinguish one lock, semaphore or election from the others.
func of(recipe, name, path string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("zkrecipes.recipe", recipe),
		attribute.String("zkrecipes.path", path),
	}
	if name != "" {
		attributes = append(attributes, attribute.String("zkrecipes.name", name))
	}
	return attributes
}

func token(t zkrecipes.Token) attribute.KeyValue { return attribute.Int64("zkrecipes.token", int64(t)) }
