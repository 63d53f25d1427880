package conn

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Client is a client of one ensemble. It outlives individual sessions and is safe for concurrent use. One client per
// process and ensemble is enough, because any number of recipes can share it.
type Client client.Client

func (c *Client) inner() *client.Client {
	if c == nil {
		panic("conn: the client is nil: create one with New or Dial")
	}
	return (*client.Client)(c)
}

// bounded returns the context for one call by the program; see [WithMaxInFlight].
func (c *Client) bounded(ctx context.Context) context.Context { return c.inner().Bounded(ctx) }

// New returns a client of the ensemble named by connect, in the form "host:port,host:port/chroot" with 2181 as the
// default port. It returns immediately and keeps trying to connect in the background, so that a service can start and
// report its health while ZooKeeper is unavailable. You don't have to wait for the connection, because calls and
// recipes do so by themselves; to wait for the first session anyway, call [Client.Ready]. The client must be closed
// even if it never connects.
//
// A host is a name, an IPv4 address, or an IPv6 address in brackets. Before each round over the servers the client
// resolves the names, and then tries all their addresses in random order. If a name no longer resolves, the client uses
// its previous addresses. For a dialer that resolves names itself, see [WithDialer]; for servers that change,
// [WithServers].
//
// "dns-srv://_zookeeper._tcp.example.com/chroot" takes the servers and ports from the SRV records of that name, as
// version 3.10 of the Java client does. The client looks the records up again before each round, even with WithDialer,
// and keeps the servers it has if that fails. Priorities and weights are ignored. Because TLS verifies the server name
// found in the record, whoever can forge records can direct the client to any server that has a certificate.
//
// Errors: a malformed connect string; an invalid option.
func New(connect string, opts ...Option) (*Client, error) {
	config, err := configOf(connect, opts)
	if err != nil {
		return nil, err
	}
	return (*Client)(client.New(context.Background(), config)), nil //nolint:forbidigo // New does not wait
}

// Dial is like [New], but waits for the first session, as [Client.Ready] does. ctx bounds only this wait, not the life
// of the client. If Dial fails, nothing is left behind, except perhaps a session that a server grants as ctx ends,
// which lasts until it expires. A log handler that blocks may delay the failure by a second. Unlike New, Dial also
// fails if, for 5 seconds, name servers report that none of the names in the connect string exist, because that is more
// often a typo than an outage. If the name servers themselves fail, Dial keeps waiting.
//
// Errors: those of New, or that no name exists, before sending any request; [zkrecipes.ErrAuthFailed]; or ctx's cause,
// with the reason why the last server did not grant a session.
func Dial(ctx context.Context, connect string, opts ...Option) (*Client, error) {
	config, err := configOf(connect, opts)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, fmt.Errorf("connect to %s: %w", connect, session.ErrNoContext)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", connect, session.CauseOf(ctx))
	}
	client, err := client.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", connect, err)
	}
	return (*Client)(client), nil
}

func configOf(connect string, opts []Option) (*client.Config, error) {
	servers, source, chroot, err := parse(connect)
	if err != nil {
		return nil, err
	}
	o, err := newOptions(opts)
	if err == nil && source != nil && o.Source != nil {
		err = fmt.Errorf("both %s and %s list the servers: use only one of them", source.Name, o.Source.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", connect, err)
	}
	o.Servers, o.Chroot = servers, chroot
	if source != nil {
		o.Source = source
	}
	return &o.Config, nil
}

// Ready waits until there is a session. If ctx is done first, only Ready gives up, and the client keeps trying to
// connect.
//
// Errors: ErrClosed, ErrAuthFailed, or context.Cause(ctx) with the reason why no server granted a session.
func (c *Client) Ready(ctx context.Context) error {
	if _, err := c.inner().Session(ctx); err != nil {
		return fmt.Errorf("wait for a session: %w", err)
	}
	return nil
}

// Close ends the session, and with it every hold and ephemeral node, and waits until everything the client started has
// stopped. It always returns nil; it has a result so that Client implements [io.Closer] and you can write
//
//	defer client.Close()
//
// For at most a second, Close tries to notify the server, and to remove containers that were created for nodes that
// never came to exist, because by default servers do not reap a container that never had a child. Without a connection,
// or if the server does not answer, the ephemeral nodes remain until the session expires, and such containers remain
// for good. Close is idempotent, and every later call on the client returns [zkrecipes.ErrClosed].
//
// Closing a client created by [Client.Sub] closes only that client: new calls on it fail, but the connection and its
// state are not affected.
func (c *Client) Close() error { return c.inner().Close() }

// States yields the current state and then every transition, until ctx is done or the client is closed. Unlike the
// Watch methods, which skip outdated states, it skips none, even if the caller is slow. If you need only the current
// state, use [Client.Status].
func (c *Client) States(ctx context.Context) iter.Seq[zkrecipes.State] {
	return c.inner().States(ctx)
}

// Session returns the current session, waiting for one if there is none. The session may be disconnected at the moment.
//
// Errors: ErrClosed, ErrAuthFailed, or context.Cause(ctx) with the reason why no server granted a session.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.inner().Session(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Sub returns a client on the same connection whose root is the given prefix. The node at the prefix doesn't have to
// exist: recipes create it, but Create and Multi do not.
//
// Errors: a prefix that is relative or malformed; ErrClosed.
func (c *Client) Sub(prefix string) (*Client, error) {
	sub, err := c.inner().Sub(prefix)
	return (*Client)(sub), err
}

// Identity returns the name under which this client appears to others; see [WithIdentity].
func (c *Client) Identity() string { return c.inner().Identity() }

// Get returns a node's data and Stat. It retries until a server answers, in the next session if necessary.
//
// Errors: the server's error, such as zk.ErrNoNode or zk.ErrNoAuth; [zkrecipes.ErrTooLarge] for the reply; ErrClosed;
// ErrAuthFailed; context.Cause(ctx), with what the call was waiting for.
func (c *Client) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	return c.inner().Get(c.bounded(ctx), path)
}

// Exists reports whether a node exists, and returns its Stat. Like [Client.Get], it retries until a server
// answers.
//
// Errors: those of Get, except that a missing node is not an error.
func (c *Client) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	return c.inner().Exists(c.bounded(ctx), path)
}

// Children returns the names of a node's children in no particular order. Like [Client.Get], it retries until a server
// answers. Because the names share one block of memory, clone a name with [strings.Clone] to keep it longer than the
// list.
//
// Errors: those of Get.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	return c.inner().Children(c.bounded(ctx), path)
}

// ACL returns a node's ACL and its Stat, whose Aversion is the ACL's version. Like [Client.Get], it retries until a
// server answers. Since ZooKeeper 3.7, a client without the admin permission receives the digest scheme's hashes as
// "x"; don't pass such an ACL to [Client.SetACL].
func (c *Client) ACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	return c.inner().ACL(c.bounded(ctx), path)
}

// SetACL replaces a node's ACL if the ACL has the given version, which is the Aversion of the node's Stat; -1 matches
// any version. The client needs the admin permission. The ACL applies to this node only, not to its parent or its
// children. In particular, whether a node may be deleted depends on its parent's ACL.
//
// If the reply to a SetACL with a version is lost, SetACL reads the node. If the ACL still has that version, SetACL
// sends the write again, because at most one copy can be applied.
//
// Errors: zk.ErrInvalidACL for an empty ACL, before sending any request, and for one the server rejects;
// zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNoAuth or another server error, in which case nothing was written;
// ErrUnknownOutcome if a reply was lost and it cannot be determined whether this SetACL or another client changed the
// ACL; without a session, the same as Create.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (zk.Stat, error) {
	return c.inner().SetACL(c.bounded(ctx), path, acl, version)
}

// Sync waits until the server has caught up with the leader. Later reads on this client or its session are then at
// least as recent as the call to Sync, as far as the leader knows: a leader that has been replaced may take up to 1.5
// ticks to notice, and until then it answers Sync as if it still led. Like [Client.Get], Sync retries until a server
// answers.
//
// Errors: those of Get, except that servers do not check that the node exists.
func (c *Client) Sync(ctx context.Context, path string) error {
	return c.inner().Sync(c.bounded(ctx), path)
}

// Watch yields the node at path, and then every change to its data, including its creation and deletion. A slow caller
// gets the latest state, and intermediate states are skipped, but an older state never follows a newer one. If the node
// was deleted and recreated since the last view, its Stat has a different Czxid. Changes to children and to the ACL are
// not reported. Iteration ends as package zkrecipes describes under "Conventions"; the final error, if any, is
// zk.ErrNoAuth, [zkrecipes.ErrTooLarge] if the node is too large to read, ErrClosed, or another server error.
//
// If the connection is lost, a read takes an eighth of the session timeout, or no server has answered for a whole
// session timeout, Watch immediately yields the last view again, with Current set to false. It then rereads the node as
// soon as it can, in the next session if necessary. Even a current view reflects only what one server knows, and that
// server may lag behind its leader. To get the latest state, call [Client.Sync] and then [Client.Get].
//
// Watch uses a single watch and reads the node once for each change. When iteration ends, the watch is removed unless
// another caller in the same session shares it.
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

// Create creates a node; see [Session.Create]. An ephemeral node belongs to the current session. Create makes a single
// attempt. The mode is [Persistent], [Ephemeral] or one of the other named modes. It is an int32 with the values of
// go-zookeeper's flags, so code written for go-zookeeper's Conn can keep its arguments.
//
// Errors: those of [Session.Create]; or, without a session, ErrClosed, ErrAuthFailed or context.Cause(ctx), in which
// case no request was sent.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode int32, acl ...zk.ACL) (string, error) {
	return c.inner().Create(c.bounded(ctx), path, data, mode, acl...)
}

// CreateProtected is like [Client.Create], but finds the node even if the reply is lost. This matters most for
// sequential nodes, because you cannot predict their names. The last part of the path begins with "_c_", a new UUID and
// "-"; for example, "/jobs/worker-" becomes "/jobs/_c_<uuid>-worker-0000000001" for [EphemeralSequential]. Curator's
// withProtection names nodes the same way, and so does go-zookeeper's CreateProtectedEphemeralSequential, without the
// hyphens of the UUID. CreateProtected returns the whole path. It accepts the modes [Persistent],
// [PersistentSequential], [Ephemeral] and [EphemeralSequential], and does not create missing parents.
//
// If the reply is lost, CreateProtected waits until a quorum has confirmed that no earlier request is on its way. It
// then looks for the UUID among the parent's children, which requires read permission, and sends the request again if
// no child has it. If CreateProtected fails or ctx is done first, a node that it may have created is deleted in the
// background while the session lives.
//
// A server that hangs may execute the first request late, after the second was answered. In a sequential mode, there
// are then two nodes with the same UUID.
//
// Errors: those of [Client.Create]. ErrUnknownOutcome means that ctx was done, the session ended, or the search was
// refused before the node was found. In that case, an ephemeral node is deleted no later than the end of the session,
// but a persistent node may remain. The error names the node.
func (c *Client) CreateProtected(
	ctx context.Context, path string, data []byte, mode int32, acl ...zk.ACL,
) (string, error) {
	return ephemeral.CreateProtected(c.bounded(ctx), c.inner(), path, data, mode, acl)
}

// CreateTTL is like [Client.Create] for a node with a time to live: the servers delete the node once it has had no
// children and its data has not been written for that long. [Client.Set] restarts the time to live. Because the servers
// check only about once a minute and use their leader's wall clock, this is useful for cleaning up, but not for
// coordination. To show that a process is running, use an ephemeral node instead.
//
// The mode is [Persistent] or [PersistentSequential]. The time to live is rounded up to milliseconds, and may be at
// most 2^40-1 of them, about 34 years.
//
// All servers must run ZooKeeper 3.5.3 or later with the system property zookeeper.extendedTypesEnabled=true, which
// is off by default. A server without it mistakes such nodes for ephemeral ones, so set it on all servers before you
// create the first such node.
//
// Errors: those of [Client.Create]; [zkrecipes.CodeUnimplemented] if the server has not enabled such nodes; a time to
// live outside that range, before sending any request.
func (c *Client) CreateTTL(
	ctx context.Context, path string, data []byte, mode int32, ttl time.Duration, acl ...zk.ACL,
) (string, error) {
	return c.inner().CreateTTL(c.bounded(ctx), path, data, mode, ttl, acl...)
}

// CreateAll creates a plain node and, as containers, its missing parents, including those of the chroot. The ACL
// applies to the node; the containers get the client's.
//
// If the reply is lost, CreateAll reads the node. If the node has the same data, CreateAll succeeds, even if another
// client created it. If the node is missing, and was not created and deleted in between, CreateAll sends the request
// again. In all other cases the error matches ErrUnknownOutcome.
//
// A server that hangs may execute the first request late, after the second was answered. If the node has since been
// deleted, the late request recreates it.
//
// Errors: zk.ErrNodeExists if the node existed before, or the server's error for the node that could not be created.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, acl ...zk.ACL) error {
	return c.inner().CreateAll(c.bounded(ctx), path, data, acl...)
}

// Multi applies either all of the operations or none of them; see [Session.Multi]. It makes a single attempt, in the
// current session.
//
// Errors: those of [Session.Multi]; without a session, the same as Create.
func (c *Client) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return c.inner().Multi(c.bounded(ctx), ops...)
}

// Set replaces a node's data if the node has the given version; -1 matches any version. If the reply to a Set with a
// version is lost, Set reads the node. If the node still has that version, Set sends the write again, because at most
// one copy can be applied. (A node that has since been deleted and recreated may have that version, too.)
//
// Data versions wrap, and reach -1 after 2^32 writes. To avoid leaving a node at -1, which other clients may do, a Set
// with version -2 writes twice, in one transaction, and leaves 0. If you have read -1 and must not overwrite newer
// data, use Multi with a zkrecipes.Op that is Exact.
//
// Errors: zk.ErrBadVersion, zk.ErrNoNode or another server error, in which case nothing was written; ErrUnknownOutcome
// if a reply was lost and it cannot be determined whether this Set or another client changed the node; without a
// session, the same as Create.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	return c.inner().Set(c.bounded(ctx), path, data, version)
}

// Delete deletes a node if the node has the given version; -1 matches any version. If the reply is lost, Delete reads
// the node. A missing node counts as success, while one that still has the given version is deleted again, even if
// another client has since recreated it.
//
// Errors: zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNotEmpty or another server error, in which case nothing was deleted;
// ErrUnknownOutcome if a reply was lost and there is a node with another version, or any node with -1, which may be
// another client's; without a session, the same as Create.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	return c.inner().Delete(c.bounded(ctx), path, version)
}

// DeleteAll deletes a node and all nodes below it, or only those below it with [WithKeepTop]. A missing node is not
// an error. Up to 64 requests are in flight at a time.
//
// The deletion is not atomic, so other clients see parts of the tree until DeleteAll returns. It also deletes whatever
// they create below the path while it runs, including ephemeral nodes and lock contenders, whose holds are then lost.
// If DeleteAll returns nil, there was a moment during the call at which no node was left, even though one may have been
// created since. As long as another client keeps creating nodes below the path, DeleteAll continues until ctx is done.
//
// A delete whose reply is lost is sent again, in the next session if necessary. A server that hangs may execute the
// first request late and delete a node that has since been created at the same path, unless that node has children.
//
// DeleteAll stops at the first error and returns it. Part of the tree may then be gone.
//
// Errors: the server's error for the node that could not be deleted or listed, such as zk.ErrNoAuth;
// [zkrecipes.ErrTooLarge] for a list of children above [WithMaxReplySize]; the server's root or /zookeeper as the path,
// because servers keep nodes of their own below them, before sending any request; ErrClosed; ErrAuthFailed;
// context.Cause(ctx). The error also matches ErrUnknownOutcome if the node it names may have been deleted.
func (c *Client) DeleteAll(ctx context.Context, path string, opts ...DeleteAllOption) error {
	var o deleteAllOptions
	for i, opt := range opts {
		if opt == nil {
			return fmt.Errorf("delete all of %s: option %d is nil", path, i)
		}
		opt(&o)
	}
	return c.inner().DeleteAll(c.bounded(ctx), path, o.keepTop)
}

// DeleteAllOption configures [Client.DeleteAll].
type DeleteAllOption func(*deleteAllOptions)

type deleteAllOptions struct{ keepTop bool }

// WithKeepTop makes [Client.DeleteAll] delete only what is below the path; by default it deletes the node at the
// path, too. If that node is a container, servers reap it some time after its last child is gone.
func WithKeepTop() DeleteAllOption { return func(o *deleteAllOptions) { o.keepTop = true } }
