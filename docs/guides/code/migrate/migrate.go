package snippets

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func afterGoZookeeper(ctx context.Context, client *conn.Client) error {
	m, err := mutex.New(client, "/locks/invoices") // the same path
	if err != nil {
		return err
	}
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }()
	return bill(h.Context(), h.Token())
}

func afterLibkv(ctx context.Context, client *conn.Client) error {
	m, err := mutex.New(client, "/locks/invoices", mutex.WithData([]byte("worker-7")))
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // ctx plays the role of the loss channel
	})
}

func afterLeadership(ctx context.Context, client *conn.Client) error {
	e, err := election.New(client, "/service/leader", election.WithID("node-1"))
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

func besideSelector(client *conn.Client) (*election.Election, error) {
	return election.New(client, "/service/leader", election.WithLayout(election.Selector))
}
