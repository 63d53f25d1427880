package group

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
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

// WithWait makes Join wait, within its context, while the id is taken. By default Join fails. So a process that was started anew
// takes its id back when the session of its predecessor has expired.
func WithWait() JoinOption {
	return func(c *joining) error {
		c.wait = true
		return nil
	}
}

// WithReplace deletes the node of another session that has the id, in one transaction with the creation of ours, if replace says
// so. By default Join fails. replace is called on a goroutine of the client and must not wait.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) JoinOption {
	return func(c *joining) error {
		if replace == nil {
			return errors.New("WithReplace: the function is nil")
		}
		c.options = append(c.options, node.WithReplace(replace))
		return nil
	}
}

// Join makes the caller a member with the id and the data, and waits until its node is there. The layouts of kazoo have no data. ctx bounds the waiting, not the membership. If the node goes, it is made again, until [Membership.Close].
//
// On error the caller is no member. Its node is deleted in the background.
//
// Errors: a *zkrecipes.TakenError, which names the owner, if another session has the id; an id that cannot be the name of a
// node; data that is too large; another Membership of the same client with the id that has not left; the cause of ctx, with what is in the way;
// what the server said; ErrClosed.
//
// Source: Curator's GroupMember, kazoo's Party.
func (g *Group) Join(ctx context.Context, id string, data []byte, opts ...JoinOption) (*Membership, error) {
	name, payload := g.layout.node(id, data)
	var cfg joining
	if err := recipe.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	switch {
	case session.ValidateName("id", name) != nil:
		return nil, fmt.Errorf("group: %w", session.ValidateName("id", id)) // kazoo's names have more than the id
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
		_ = n.Close(waiting) // it goes on after that
		return nil, fmt.Errorf("group: %w", err)
	}
	return &Membership{layout: g.layout, id: id, node: n}, nil
}

// ID returns the id of the member.
func (m *Membership) ID() string { return m.id }

// Path returns the path of the member's node.
func (m *Membership) Path() string { return m.node.Path() }

// State returns what is known of the member's node now. It sends nothing.
func (m *Membership) State() node.State { return m.node.State() }

// Watch tells the state now, then every change. A slow caller gets the newest state and misses those in between.
//
// It ends, without an error, when ctx does or the caller stops; with one, the last it tells, when the member has left: ErrClosed.
func (m *Membership) Watch(ctx context.Context) iter.Seq2[node.State, error] {
	return m.node.Watch(ctx)
}

// Set replaces the data of the member, and waits until the server has had it, or what a later Set has replaced it by. After an
// error it is set as soon as that is possible, unless it was too large or the member has left.
//
// Errors: a layout without data; data that is too large; the cause of ctx, with what is in the way; what the server said.
func (m *Membership) Set(ctx context.Context, data []byte) error {
	if m.layout != Curator {
		return &session.OpError{Op: "set", Path: m.Path(), Err: errors.New("kazoo's layouts have no data")}
	}
	return m.node.Set(ctx, data)
}

// Close ends the membership: it deletes the member's node if it is ours, and waits until it is gone or its session over. It is idempotent.
//
// Errors: the cause of ctx; that the server does not allow the removal. In both cases the removal goes on.
func (m *Membership) Close(ctx context.Context) error { return m.node.Close(ctx) }
