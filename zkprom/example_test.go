package zkprom_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

// This program serves the metrics of its client and of one lock at /metrics.
func Example() {
	if err := serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	metrics, err := zkprom.New()
	if err != nil {
		return err
	}
	prometheus.MustRegister(metrics)
	http.Handle("/metrics", promhttp.Handler())
	go func() { log.Print(http.ListenAndServe("localhost:8080", nil)) }()

	client, err := conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181/myapp", conn.WithTracer(metrics.Tracer()))
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, "/locks/invoices", mutex.WithTracerName("invoices"))
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token())
	})
}

func bill(context.Context, zkrecipes.Token) error { return nil }
