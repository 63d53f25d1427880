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

// Membership is one member that this process maintains in the group. It is safe for concurrent use.
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

// WithWait makes Join wait, until ctx ends, while the id is taken; by default Join fails. A restarted process then gets
// its id back once the session of its predecessor has expired.
func WithWait() JoinOption {
	return func(c *joining) error {
		c.wait = true
		return nil
	}
}

// WithReplace deletes the node of another session that has the id if replace returns true, in one transaction with the
// creation of this one; by default Join fails. replace is called on a goroutine of the client and must not block.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) JoinOption {
	return func(c *joining) error {
		if replace == nil {
			return errors.New("WithReplace: the function is nil")
		}
		c.options = append(c.options, node.WithReplace(replace))
		return nil
	}
}

// Join makes the caller a member with the given id and data, and blocks until its node exists. The layouts of kazoo
// have no data. ctx bounds the wait, not the membership. If the node is lost it is created again, until
// [Membership.Close].
//
// On error the caller is not a member, and its node is deleted in the background.
//
// Errors: a *zkrecipes.TakenError, which names the owner, if another session has the id; an id that cannot be the name
// of a node; data that is too large; another Membership of the same client with the id that has not left; the cause of
// ctx, with what the call was waiting for; the error of the server; ErrClosed.
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
		return nil, fmt.Errorf("group: %w", paths.ValidateName("id", id)) // names of kazoo contain more than the id
	case g.layout != Curator && data != nil:
		return nil, errors.New("group: kazoo's layouts have no data: want nil")
	}
	if !cfg.wait {
		cfg.options = append(cfg.options, node.WithRefusal())
	}
	n, err := node.New((*conn.Client)(g.client), g.child(name), payload, cfg.options...)
	if err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	if err := n.Ready(ctx); err != nil {
		waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), session.Farewell)
		defer cancel()
		_ = n.Close(waiting) // it continues after that
		return nil, fmt.Errorf("group: %w", err)
	}
	return &Membership{layout: g.layout, id: id, node: n}, nil
}

// ID returns the id of the member.
func (m *Membership) ID() string { return m.id }

// Path returns the path of the member's node.
func (m *Membership) Path() string { return m.node.Path() }

// State returns what is currently known about the member's node. It sends nothing.
func (m *Membership) State() node.State { return m.node.State() }

// Watch yields the current state, then every change. A slow caller gets the newest state and misses those in between.
//
// The iteration ends as described in package [zkrecipes], under "Conventions". Its error is ErrClosed when the member
// has left.
func (m *Membership) Watch(ctx context.Context) iter.Seq2[node.State, error] {
	return m.node.Watch(ctx)
}

// Set replaces the data of the member, and blocks until the server has had it, or the data of a later Set that replaced
// it. After an error, the data is still set as soon as possible, unless it was too large or the member has left.
//
// Errors: a layout without data; data that is too large; the cause of ctx, with what the call was waiting for; the
// error of the server.
func (m *Membership) Set(ctx context.Context, data []byte) error {
	if m.layout != Curator {
		return &session.OpError{Op: "set", Path: m.Path(), Err: errors.New("kazoo's layouts have no data")}
	}
	return m.node.Set(ctx, data)
}

// Close ends the membership: it deletes the member's node if it is the member's own, and blocks until it is gone or its
// session is over. It is idempotent.
//
// Errors: the cause of ctx; an error if the server does not permit the removal. In both cases the removal continues.
func (m *Membership) Close(ctx context.Context) error { return m.node.Close(ctx) }
