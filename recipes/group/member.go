package group

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/recipes/node"
)

// Membership is one member that this process keeps in the group. It is safe for concurrent use.
type Membership struct {
	layout Layout
	id     string
	node   *node.Node
}

// JoinOption configures [Group.Join].
type JoinOption func(*joining) error

type joining struct {
	wait    bool
	options []node.Option
}

// WithWait makes Join wait while the ID is taken, until ctx is done; by default Join fails. This lets a restarted
// process get its ID back once its predecessor's session expires.
func WithWait() JoinOption {
	return func(c *joining) error {
		c.wait = true
		return nil
	}
}

// WithReplace lets Join take over an ID that another session holds; by default Join fails. If the replace function,
// which receives the data and the Stat of that session's node, returns true, the node is deleted in the same
// transaction that creates the new one. The function is called on one of the client's goroutines and must not block.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) JoinOption {
	return func(c *joining) error {
		if replace == nil {
			return errors.New("WithReplace: the function is nil")
		}
		c.options = append(c.options, node.WithReplace(replace))
		return nil
	}
}

// Join makes the caller a member with the given ID and data, and blocks until its node exists. With kazoo's layouts,
// data must be nil, because their members have no payload. To limit how long Join waits, pass a context with a
// deadline; the membership itself lasts until [Membership.Close], and its node is recreated if it is lost.
//
// If Join fails, the caller is not a member, and anything that was created is deleted in the background.
//
// Errors: a *zkrecipes.TakenError, which names the owner, if another session has the ID; an ID that is not a valid node
// name; data that is too large; an open Membership with the same ID on the same client; context.Cause(ctx), along with
// what the call was waiting for; the server's error; ErrClosed.
//
// Source: Curator's GroupMember, kazoo's Party.
func (g *Group) Join(ctx context.Context, id string, data []byte, opts ...JoinOption) (*Membership, error) {
	name, payload := g.layout.node(id, data)
	var cfg joining
	if err := recipe.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	switch {
	case paths.ValidateName("id", name) != nil:
		return nil, fmt.Errorf("group: %w", paths.ValidateName("id", id)) // kazoo's names contain more than the ID
	case g.layout != Curator && data != nil:
		return nil, errors.New("group: kazoo's layouts have no data: want nil")
	}
	if !cfg.wait {
		cfg.options = append(cfg.options, node.WithRefusal())
	}
	switch { // before New, which creates the node in the background
	case ctx == nil:
		return nil, fmt.Errorf("group: join: %w", session.ErrNoContext)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("group: join: %w", session.CauseOf(ctx))
	}
	n, err := node.New((*conn.Client)(g.client), g.child(name), payload, cfg.options...)
	if err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	if err := n.Ready(ctx); err != nil {
		waiting, cancel := context.WithTimeout(ctx, session.RemovalWait)
		defer cancel()
		_ = n.Close(waiting) // the removal continues after that
		return nil, fmt.Errorf("group: %w", err)
	}
	return &Membership{layout: g.layout, id: id, node: n}, nil
}

// ID returns the member's ID.
func (m *Membership) ID() string { return m.id }

// Path returns the path of the member's node.
func (m *Membership) Path() string { return m.node.Path() }

// State returns what is currently known about the member's node, without contacting the servers.
func (m *Membership) State() node.State { return m.node.State() }

// Watch yields the current state, then every change. If the caller is slow, it gets the latest state, and intermediate
// states are skipped.
//
// Iteration ends as described under "Conventions" in package [zkrecipes], and with ErrClosed when the member leaves.
func (m *Membership) Watch(ctx context.Context) iter.Seq2[node.State, error] {
	return m.node.Watch(ctx)
}

// Set replaces the member's data, and blocks until the server has it, or has the data from a later Set. Even if Set
// fails, the data will still be written as soon as possible, unless it is too large or the member has left.
//
// Errors: a layout without data; data that is too large; context.Cause(ctx), along with what the call was waiting for;
// the server's error.
func (m *Membership) Set(ctx context.Context, data []byte) error {
	if m.layout != Curator {
		return &session.OpError{Op: "set", Path: m.Path(), Err: errors.New("kazoo's layouts have no data")}
	}
	return m.node.Set(ctx, data)
}

// Close leaves the group: it deletes the member's node if it is the member's own, and blocks until the node is gone or
// its session is over. It is idempotent.
//
// Errors: context.Cause(ctx), or an error if the server does not permit the removal. In either case, the removal
// continues in the background.
func (m *Membership) Close(ctx context.Context) error { return m.node.Close(ctx) }
