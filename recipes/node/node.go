package node

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/presence"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Node keeps one node. It is safe for concurrent use.
type Node struct{ inner *presence.Node }

// State is what a Node knows of its node.
type State struct {
	// Present says that the node was there at AsOf, and ours.
	Present bool
	// Czxid is the incarnation of our node; 0 if there is none.
	Czxid int64
	// Session is the session that owns our node; 0 if there is none.
	Session int64
	zkrecipes.Freshness
	// Err says why the node is not there, or does not have the data that was set last; nil if neither is so. It matches
	// [ErrDeleted], zkrecipes.ErrTaken (a *zkrecipes.TakenError names the owner), zkrecipes.ErrLost if the session has ended,
	// zkrecipes.ErrClosed if the Node is closed, or it is what the server said. Other reasons are text for people alone.
	Err error
}

// ErrDeleted says that another client has deleted the node. It is being made again.
var ErrDeleted = presence.ErrDeleted

// Option configures [New].
type Option func(*config) error

type config struct {
	shared recipe.Config
	inner  presence.Config
}

// WithRefusal ends the Node if a node of another session is at the path before ours ever was; default is to wait until that
// node goes. Then Ready and Set return a *zkrecipes.TakenError, and nothing is made at the path any more. A node of the client's
// own session before is not another's.
func WithRefusal() Option {
	return func(c *config) error {
		c.inner.Refuse = true
		return nil
	}
}

// WithReplace deletes the node of another session, in one transaction with the creation of ours, if replace says so; default is
// to wait until that node goes. So a process that was started anew need not wait until the session of its predecessor
// expires: it compares data by which it knows its own. replace is called on a goroutine of the client and must not wait.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) Option {
	return func(c *config) error {
		if replace == nil {
			return errors.New("WithReplace: the function is nil")
		}
		c.inner.Replace = replace
		return nil
	}
}

// New begins to keep an ephemeral node at path with the data, and does not wait. Missing parents are made.
//
// Errors: a nil client; a path that is relative, malformed or the root; a bad option; data above [conn.WithMaxRequestSize]; a
// path at which another open Node of the same client keeps a node; ErrClosed. If a closed Node is still removing its node there,
// the new Node waits for that.
//
// Source: Curator's PersistentNode, which also adopts the nodes of other sessions.
func New(c *conn.Client, path string, data []byte, opts ...Option) (*Node, error) {
	client := (*session.Client)(c)
	cfg := config{inner: presence.Config{Client: client, Path: path, Data: data}}
	if err := recipe.Configure(client, &cfg, &cfg.shared, opts); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	inner, err := presence.New(cfg.inner)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return &Node{inner}, nil
}

// Path returns the path of the node.
func (n *Node) Path() string { return n.inner.Path() }

// State returns what is known of the node now. It sends nothing.
func (n *Node) State() State { return State(n.inner.State()) }

// Changes tells the state now, then every change, until ctx ends or the Node does. A slow caller gets the newest state and
// misses those in between.
func (n *Node) Changes(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		n.inner.Changes(ctx, func(s presence.State) bool { return yield(State(s)) })
	}
}

// Ready waits until the node is there.
//
// Errors: the cause of ctx, with what is in the way; what the server said if it refuses the node, which is tried again in
// the background; a *zkrecipes.TakenError with [WithRefusal]; ErrClosed.
func (n *Node) Ready(ctx context.Context) error { return n.inner.Ready(ctx) }

// Set replaces the data, and waits until the server has had it, or what a later Set has replaced it by. After an error the data
// is set as soon as that is possible, unless it was too large or the Node is closed.
//
// Errors: as of [Node.Ready]; data that is too large. If the server has refused other data before, Set waits for what it says of
// these, after the pause between two tries.
func (n *Node) Set(ctx context.Context, data []byte) error { return n.inner.Set(ctx, data) }

// Close deletes the node if it is ours, and waits until it is gone or its session over. It is idempotent. Afterwards
// everything returns ErrClosed.
//
// Errors: the cause of ctx; that the server does not allow the removal. In both cases the removal goes on.
func (n *Node) Close(ctx context.Context) error { return n.inner.Close(ctx) }
