// Package snippets has the short pieces of code in the guides.
package snippets

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zkhttp"
)

func bill(context.Context, zkrecipes.Token) error { return nil }
func lead(context.Context, *election.Term) error  { return nil }
func upload(context.Context) error                { return nil }
func show(context.Context) error                  { return nil }
func edit(context.Context, *zkrecipes.Hold) error { return nil }
func work(context.Context, *zkrecipes.Hold) error { return nil }
func announce(who string)                         { _ = who }
func step(context.Context) (more bool, err error) { return false, nil }
func serve(context.Context, http.Handler) error   { return nil }

func leader(ctx context.Context, client *conn.Client) error {
	e, err := election.New(client, "/leader")
	if err != nil {
		return err
	}
	// Run campaigns, leads, and campaigns again until ctx is done.
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		return bill(ctx, t.Token()) // ctx is canceled when the term ends
	})
}

func observe(ctx context.Context, e *election.Election) error {
	for now, err := range e.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case !now.Current:
			announce("unknown") // the connection is lost: the leader may have changed
		case !now.Exists:
			announce("nobody")
		default:
			announce(now.Leader.Name)
		}
	}
	return nil
}

func readWrite(ctx context.Context, client *conn.Client) error {
	l, err := rwlock.New(client, "/locks/config")
	if err != nil {
		return err
	}
	err = l.RDo(ctx, func(ctx context.Context, _ *zkrecipes.Hold) error { return show(ctx) })
	if err != nil {
		return err
	}
	return l.Do(ctx, edit)
}

func leases(ctx context.Context, client *conn.Client) error {
	s, err := semaphore.New(client, "/locks/uploads", 10)
	if err != nil {
		return err
	}
	return s.Do(ctx, 1, func(ctx context.Context, _ *zkrecipes.Hold) error { return upload(ctx) })
}

func try(ctx context.Context, m *mutex.Mutex) error {
	h, err := m.TryLock(ctx)
	var busy *zkrecipes.BusyError
	if errors.As(err, &busy) {
		slog.Info("another process works", "holder", busy.Holder.Name, "since", busy.Holder.Since)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }()
	return whileHeld(ctx, h)
}

func whileHeld(ctx context.Context, h *zkrecipes.Hold) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(h.Context(), stop)() // it also ends with the hold
	return work(working, h)                      // checks h.Err() before each step that matters
}

func patience(ctx context.Context, m *mutex.Mutex) error {
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	h, err := m.Lock(waiting) // limits the wait, not the hold
	var gaveUp *zkrecipes.WaitError
	if errors.As(err, &gaveUp) {
		slog.Warn("still locked", "holder", gaveUp.Holder.Name, "position", gaveUp.Position)
	}
	if err != nil {
		return err
	}
	return errors.Join(whileHeld(ctx, h), h.Release(context.WithoutCancel(ctx)))
}

func production(ctx context.Context, servers string, roots *tls.Config) (*conn.Client, error) {
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return conn.Dial(dialing, servers,
		conn.WithSessionTimeout(15*time.Second),
		conn.WithTickTime(2*time.Second),    // as in zoo.cfg
		conn.WithIdentity("billing-7f9c/1"), // what other clients see in the queue
		conn.WithTLS(roots),
	)
}

func quiet(ctx context.Context, servers string) (*conn.Client, error) {
	warnings := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return conn.Dial(ctx, servers, conn.WithLogger(warnings))
}

func states(ctx context.Context, client *conn.Client) {
	for state := range client.States(ctx) {
		slog.Info("zookeeper", "state", state)
	}
}

func handle(mux *http.ServeMux, client *conn.Client, e *election.Election) {
	mux.Handle("/readyz", zkhttp.Health(client)) // a 503 describes the problem
	mux.Handle("/self", zkhttp.Self(e))          // 200 only while this process leads
}

func longJob(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx) // the hold is lost: stop
		}
		if more, err := step(ctx); err != nil || !more {
			return err
		}
	}
}
