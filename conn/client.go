package conn

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

// Client is the user's handle on an ensemble. It lives through many sessions. It is safe for concurrent use, and one
// per process and ensemble is enough: any number of recipes share it.
type Client client.Client

func (c *Client) inner() *client.Client {
	if c == nil {
		panic("conn: the client is nil: want one made by New or Dial")
	}
	return (*client.Client)(c)
}

// New makes a client of the ensemble named by connect, "host:port,host:port/chroot" with 2181 as the default port. It returns at
// once, and connects in the background for as long as it takes: a service can start, and show its health, while ZooKeeper is
// away. [Client.Ready] waits for the first session. Calls and recipes wait by themselves. Close the client also if it never
// connects.
//
// A host is a name, an IPv4 address, or an IPv6 address in brackets. Before each round over the servers the client looks up the
// names, and tries all their addresses in random order. A name that is not found any more keeps the addresses that it had. See
// [WithDialer] for a dialer that takes names.
//
// Errors: a malformed connect string, or a bad option.
func New(connect string, opts ...Option) (*Client, error) {
	config, err := configOf(connect, opts)
	if err != nil {
		return nil, err
	}
	return (*Client)(client.New(context.Background(), config)), nil //nolint:forbidigo // there is no caller to wait for
}

// Dial is [New] and [Client.Ready] in one: it waits for the first session. ctx bounds the waiting only. After an error nothing is
// left behind. Only Dial fails if for 5 s no name in connect exists, because that is more often a typing error than an outage. It waits for name
// servers that fail.
//
// Errors: those of New, or no name that exists, before anything is sent. [zkrecipes.ErrAuthFailed]. Otherwise the cause of ctx, with the
// reason why the last server did not give a session.
func Dial(ctx context.Context, connect string, opts ...Option) (*Client, error) {
	config, err := configOf(connect, opts)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("connect to %s: %w", connect, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	client, err := client.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", connect, err)
	}
	return (*Client)(client), nil
}

func configOf(connect string, opts []Option) (*client.Config, error) {
	servers, chroot, err := parseConnect(connect)
	if err != nil {
		return nil, err
	}
	o, err := newOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", connect, err)
	}
	o.Servers, o.Chroot = servers, chroot
	return &o.Config, nil
}

// Ready waits until there is a session. ctx bounds the waiting only: the client goes on to connect.
//
// Errors: ErrClosed, ErrAuthFailed, or the cause of ctx with the reason why no server gave a session.
func (c *Client) Ready(ctx context.Context) error {
	if _, err := c.inner().Session(ctx); err != nil {
		return fmt.Errorf("wait for a session: %w", err)
	}
	return nil
}

// Close ends the session, and with it every hold and ephemeral node, and waits for everything the client has started. The error is
// that of an [io.Closer], and always nil, so that callers write
//
//	defer client.Close()
//
// It tries for at most a second to tell the server. If there is no connection, or the server does not answer, the
// nodes go when the session expires. Close is idempotent; afterwards everything returns [zkrecipes.ErrClosed].
//
// On a client made by [Client.Sub] it closes only that client: new calls on it fail, the connection and its state stay.
func (c *Client) Close() error { return c.inner().Close() }

// States returns the state now, then every transition, until ctx ends or the client is closed. However slow the
// caller, it misses none. So it is no view, which skips what is outdated. [Client.Status] has the state of one moment.
func (c *Client) States(ctx context.Context) iter.Seq[zkrecipes.State] {
	return c.inner().States(ctx)
}

// Session returns the live session, waiting for it if there is none. It may be disconnected at the moment.
//
// Errors: ErrClosed, ErrAuthFailed, or the cause of ctx with the reason why no server gave a session.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.inner().Session(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Sub returns a client on the same connection whose root is prefix. The node need not exist: recipes create it, Create and
// Multi do not.
//
// Errors: a prefix that is relative or malformed; ErrClosed.
func (c *Client) Sub(prefix string) (*Client, error) {
	sub, err := c.inner().Sub(prefix)
	return (*Client)(sub), err
}

// Identity returns the name under which this client appears to others, see [WithIdentity].
func (c *Client) Identity() string { return c.inner().Identity() }

// Get returns a node's data and Stat. It is repeated until a server answers, in the next session if need be.
//
// Errors: what the server said, such as zk.ErrNoNode or zk.ErrNoAuth; [zkrecipes.ErrTooLarge] for the reply; ErrClosed; ErrAuthFailed; the cause
// of ctx, with what is in the way.
func (c *Client) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	return c.inner().Get(ctx, path)
}

// Exists reports whether there is a node, and its Stat. It is repeated as [Client.Get] is.
//
// Errors: those of Get, but a missing node is none.
func (c *Client) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	return c.inner().Exists(ctx, path)
}

// Children returns the names of a node's children, in no order. It is repeated as [Client.Get] is.
//
// Errors: those of Get.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	return c.inner().Children(ctx, path)
}

// ACL returns the access list of a node. It is repeated as [Client.Get] is. Since ZooKeeper 3.7, a client without the permission admin
// gets the hashes of the scheme digest as "x".
func (c *Client) ACL(ctx context.Context, path string) ([]zk.ACL, error) {
	return c.inner().ACL(ctx, path)
}

// Sync waits until the server has caught up with the leader. What is read next, here or on the session, is then at least as new as
// this call, as far as the leader knows. A leader that was replaced, and has not found out, answers as if nothing had happened
// since. To find out takes it up to a tick and a half. Sync is repeated as [Client.Get] is.
//
// Errors: those of Get, but servers do not look whether the node is there.
func (c *Client) Sync(ctx context.Context, path string) error { return c.inner().Sync(ctx, path) }

// Watch yields the node at path now, then every change of its data, its creation and its deletion. A slow caller gets the
// newest state, and not what it has missed. It never gets an older state after a newer one. If a node was deleted and created
// again meanwhile, the Czxid of its Stat is another one. Changes of children and of the ACL are not told.
//
// In three cases Watch yields the last view again at once, with Current false: the connection is lost, a reading takes an eighth
// of the session timeout, or no server has answered for a whole session timeout. Watch reads again as soon as it can, in the next
// session if need be. A current view is what one server knows, which may be behind its leader: [Client.Sync] and then [Client.Get]
// ask for the newest.
//
// Watch ends, without an error, when ctx does or the caller stops. If it cannot go on, it yields an error as the last: zk.ErrNoAuth,
// ErrClosed, or what the server said.
//
// It reads once for each change, and has one watch. When it ends, the watch is removed, unless another caller of
// the session shares it.
func (c *Client) Watch(ctx context.Context, path string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for v, err := range c.inner().Watch(ctx, path) {
			n := v.Value
			if !yield(Node{Data: n.Data, Stat: n.Stat, Exists: n.Exists, Freshness: v.Freshness}, err) {
				return
			}
		}
	}
}

// Create makes a node, see [Session.Create]; an ephemeral one goes with the session that is live now. It is tried once.
// The mode is [Persistent], [Ephemeral] or another of the named ones. It is an int32, because the flags of go-zookeeper are the same
// numbers: a call that was written for its Conn keeps its arguments.
//
// Errors: those of [Session.Create]; without a session ErrClosed, ErrAuthFailed or the cause of ctx, and nothing was sent.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode int32, acl ...zk.ACL) (string, error) {
	return c.inner().Create(ctx, path, data, mode, acl...)
}

// CreateAll makes a plain node, and before it, as containers, the nodes above it that are missing, those of the chroot
// included. The ACL is for the node; the containers have the client's.
//
// If the reply is lost, CreateAll looks. A node with the same data is success, also if another client has made it. If no node is
// there, and none was made and deleted since, CreateAll sends the request again. Otherwise the error matches ErrUnknownOutcome.
//
// A server that hangs may execute the first request late, after the second was answered. If the node was deleted meanwhile, the
// late request makes it again.
//
// Errors: zk.ErrNodeExists if there was a node before; otherwise what the server said about the node that could not be made.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	return c.inner().CreateAll(ctx, path, data, acl...)
}

// Multi applies the operations all or none, see [Session.Multi]. It is tried once, in the session that is live then.
//
// Errors: those of [Session.Multi]; without a session as of Create.
func (c *Client) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return c.inner().Multi(ctx, ops...)
}

// Set replaces a node's data if its version is the given one; -1 is any. If the reply to a versioned Set is lost, Set looks: if
// the node still has the version, it was not applied, and is sent again. (A node that was deleted and made again meanwhile
// may have that version, too.)
//
// Data versions wrap, and come to -1 after 2^32 writes. A Set over the version -2 writes twice, in one transaction, and leaves 0. Other
// clients may leave -1. If that was read, and no newer data may be lost, use Multi with a zkrecipes.Op that is Exact.
//
// Errors: zk.ErrBadVersion, zk.ErrNoNode or what else the server said, and nothing was written; ErrUnknownOutcome if a reply was lost,
// and nothing tells whether this Set or another client changed the node; without a session as of Create.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	return c.inner().Set(ctx, path, data, version)
}

// Delete removes a node if its version is the given one; -1 is any. If the reply is lost, Delete looks: if the node is gone,
// that is success; if it still has the version, it is deleted again, also if another client has made it since.
//
// Errors: zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNotEmpty or what else the server said, and nothing was deleted; ErrUnknownOutcome if a
// reply was lost and there is a node with another version, or any node with -1, which may be another client's; without a session as of
// Create.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	return c.inner().Delete(ctx, path, version)
}
