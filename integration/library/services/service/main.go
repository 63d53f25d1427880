// Command service is one process of the services that the guides build. With -job leader it campaigns in an election
// and prints what it observes. With -job nightly it runs a short job for one night after another. Both serve /readyz,
// /leader, /self and /metrics.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/docs/guides/code/nightly"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

func main() {
	id := flag.String("id", "service", "name of this process")
	servers := flag.String("servers", "", "ZooKeeper to use")
	job := flag.String("job", "leader", "leader or nightly")
	address := flag.String("http", "localhost:8080", "where to serve")
	timeout := flag.Duration("session-timeout", 15*time.Second, "session timeout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *id, *servers, *job, *address, *timeout)
	stop()
	if err != nil {
		slog.Error("service ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, id, servers, job, address string, timeout time.Duration) error {
	metrics, err := zkprom.New()
	if err != nil {
		return err
	}
	prometheus.MustRegister(metrics)
	client, err := conn.Dial(ctx, servers, conn.WithIdentity(id), conn.WithSessionTimeout(timeout),
		conn.WithTracer(metrics.Tracer()))
	if err != nil {
		return err
	}
	defer client.Close()
	e, err := election.New(client, "/leader", election.WithTracerName("leader"))
	if err != nil {
		return err
	}
	serve(address, client, e)
	if job == "nightly" {
		return everyNight(ctx, client)
	}
	go observe(ctx, e)
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		slog.Info("elected", "token", t.Token())
		<-ctx.Done()
		return nil
	})
}

// serve serves until the process ends.
func serve(address string, client *conn.Client, e *election.Election) {
	http.Handle("/readyz", zkhttp.Health(client))
	http.Handle("/leader", zkhttp.Leader(e))
	http.Handle("/self", zkhttp.Self(e))
	http.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Addr: address, ReadHeaderTimeout: 5 * time.Second}
	go func() { slog.Error("cannot serve", "error", server.ListenAndServe()) }()
}

func observe(ctx context.Context, e *election.Election) {
	for view, err := range e.Watch(ctx) {
		if err != nil {
			slog.Error("cannot observe", "error", err)
			return
		}
		slog.Info("observed", "leader", view.Leader.Name, "none", !view.Exists, "current", view.Current)
	}
}

// night is the format of nights. Here each millisecond is a night, so that the processes contend.
const night = "2006-01-02T15:04:05.000"

// everyNight runs the job for one night after another, until ctx ends.
func everyNight(ctx context.Context, client *conn.Client) error {
	for ctx.Err() == nil {
		err := nightly.Once(ctx, client, time.Now().Format(night), func(ctx context.Context, _ *zkrecipes.Hold) error {
			pause(ctx, 300*time.Millisecond)
			return context.Cause(ctx)
		})
		if err != nil && ctx.Err() == nil {
			slog.Error("no night", "error", err)
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
