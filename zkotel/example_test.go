package zkotel_test

import (
	"context"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkotel"
)

// The spans of this program show how long it waited for a lock, how long it held it, and what it did while holding it.
func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	provider := sdk.NewTracerProvider() // with an exporter: sdk.WithBatcher
	otel.SetTracerProvider(provider)
	defer func() { _ = provider.Shutdown(ctx) }() // the last spans may be missing

	tracer, err := zkotel.New()
	if err != nil {
		return err
	}
	client, err := conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181/myapp", conn.WithTracer(tracer))
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, "/locks/invoices", mutex.WithTracerName("invoices"))
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // its spans are below "hold mutex"
	})
}

func bill(ctx context.Context, token zkrecipes.Token) error {
	_, span := otel.Tracer("billing").Start(ctx, "bill",
		trace.WithAttributes(attribute.Int64("zkrecipes.token", int64(token))))
	defer span.End()
	return nil
}
