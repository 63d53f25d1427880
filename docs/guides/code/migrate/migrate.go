// Package migrate has what programs become that used other libraries.
package migrate

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// Invoices bills under the lock that was a zk.Lock.
func Invoices(ctx context.Context, client *conn.Client, bill func(context.Context, zkrecipes.Token) error) error {
	m, err := mutex.New(client, "/locks/invoices") // the same path
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // ctx ends with the hold, and with the context of the caller
	})
}

// Locked bills under the lock that was libkv's.
func Locked(ctx context.Context, client *conn.Client, bill func(context.Context, zkrecipes.Token) error) error {
	m, err := mutex.New(client, "/locks/invoices", mutex.WithData([]byte("worker-7")))
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // ctx plays the role of the loss channel
	})
}

// Candidate stands in an election that has no old candidates.
func Candidate(ctx context.Context, client *conn.Client, lead func(context.Context, *election.Term) error) error {
	e, err := election.New(client, "/service/leader", election.WithID("node-1"))
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// BesideLocks returns an election whose candidates share the queue with zk.Lock.
func BesideLocks(client *conn.Client) (*election.Election, error) {
	return election.New(client, "/service/leader", election.WithLayout(election.Selector))
}
