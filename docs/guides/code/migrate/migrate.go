// Package migrate has programs that were migrated from other libraries.
package migrate

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/node"
)

// Invoices bills under the lock that was a zk.Lock.
func Invoices(ctx context.Context, client *conn.Client, bill func(context.Context, zkrecipes.Token) error) error {
	m, err := mutex.New(client, "/locks/invoices") // the same path
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // ctx is canceled when the hold or the caller's context ends
	})
}

// Config applies the data of a node now and after each change, until ctx is done. It was a loop around GetW.
func Config(ctx context.Context, client *conn.Client, apply func(data []byte)) error {
	for node, err := range client.Watch(ctx, "/app/config") {
		switch {
		case err != nil:
			return err
		case node.Current && node.Exists:
			apply(node.Data)
		}
	}
	return nil
}

// Sessions reports the session until ctx is done. It was a loop around the event channel of zk.Connect.
func Sessions(ctx context.Context, client *conn.Client, say func(string)) {
	for state := range client.States(ctx) {
		switch state {
		case zkrecipes.Connected: // zk.StateHasSession
			say("connected")
		case zkrecipes.Suspended: // zk.StateDisconnected: the session and its holds may still be alive
			say("not connected")
		case zkrecipes.Lost: // zk.StateExpired, or a local timeout: the client opens the next session
			say("session lost")
		case zkrecipes.Connecting, zkrecipes.Closed: // before the first session, and after the last
		}
	}
}

// Register keeps an ephemeral node. It was a Create after each zk.StateHasSession.
func Register(client *conn.Client, address string) (*node.Node, error) {
	return node.New(client, "/app/workers/w1", []byte(address)) // recreated in each session; Close removes it
}

// Leader leads while no zk.Lock on the path is held. It was a loop around Lock, the work, and Unlock.
func Leader(ctx context.Context, client *conn.Client, lead func(context.Context, *election.Term) error) error {
	e, err := election.New(client, "/service/leader", election.WithLayout(election.Selector)) // the nodes of zk.Lock
	if err != nil {
		return err
	}
	return e.Run(ctx, lead) // lead returns when its context ends
}

// Locked bills under the lock that was a lock of libkv.
func Locked(ctx context.Context, client *conn.Client, bill func(context.Context, zkrecipes.Token) error) error {
	m, err := mutex.New(client, "/locks/invoices", mutex.WithData([]byte("worker-7")))
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		return bill(ctx, h.Token()) // ctx plays the role of the loss channel
	})
}

// Candidate campaigns in an election that no longer has libkv candidates.
func Candidate(ctx context.Context, client *conn.Client, lead func(context.Context, *election.Term) error) error {
	e, err := election.New(client, "/service/leader",
		election.WithData([]byte("node-1")), election.WithLayout(election.Selector))
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// CandidateBesideLibkv campaigns in an election that still has libkv candidates. It also writes its name to the
// path, where followers of libkv read it.
func CandidateBesideLibkv(
	ctx context.Context, client *conn.Client, lead func(context.Context, *election.Term) error,
) error {
	unknown := func(err error) bool { return errors.Is(err, zkrecipes.ErrUnknownOutcome) } // the name is written again
	e, err := election.New(client, "/service/leader",
		election.WithData([]byte("node-1")), election.WithLayout(election.Selector), election.WithRetry(unknown))
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		// The name is written only if the term is still held.
		_, err := t.Txn(ctx, zkrecipes.OpSet(e.Path(), []byte("node-1"), -1))
		if err != nil {
			return err
		}
		return lead(ctx, t)
	})
}

// FollowBesideLibkv announces the leader, of either kind, while there are candidates of libkv.
func FollowBesideLibkv(ctx context.Context, client *conn.Client, announce func(leader string)) error {
	for node, err := range client.Watch(ctx, "/service/leader") {
		switch {
		case err != nil:
			return err
		case !node.Current:
			announce("unknown") // the connection is lost: the leader may have changed
		case node.Exists:
			announce(string(node.Data)) // the last leader: libkv leaves the name when a leader stops
		default:
			announce("nobody") // the parent is gone, and all candidates with it
		}
	}
	return nil
}
