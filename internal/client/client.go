// Package client opens one session after another, and implements what outlives a session: reads, writes in doubt
// that a version settles (doubt.go), views, claims, the state.
//
// A recipe gets at it by converting the *conn.Client it was given to *[Client]; the types are designed for that.
package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/trace"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Client is a handle on an ensemble; package conn documents it.
type Client struct {
	core   *core
	chroot paths.Chroot // not embedded, because conn.Client would show it
	gone   atomic.Bool  // only for a client created by Sub: whether it was closed
	isSub  bool
}

// New returns a client that connects in the background. The requests it makes on its own carry ctx's values.
func New(ctx context.Context, config *Config) *Client {
	client := newClient(ctx, config)
	client.start()
	return client
}

// Open is like New, but waits for the first session, as conn.Dial does.
func Open(ctx context.Context, config *Config) (*Client, error) {
	client := newClient(ctx, config)
	if err := client.core.hosts.requireAddress(ctx, client.core.ensemble.ConnectTimeout()/2); err != nil {
		client.core.log.flush()
		return nil, err
	}
	client.start()
	if _, err := client.Session(ctx); err != nil {
		client.core.close(ctx)
		return nil, err
	}
	return client, nil
}

func newClient(ctx context.Context, config *Config) *Client {
	c := &core{
		opts: config, log: newLogQueue(), states: newStateLog(), changed: make(chan struct{}),
		claims: make(map[string]*Claim),
	}
	config.Log = c.log.logger(config.Log)
	c.hosts, c.ensemble = newHosts(config), session.NewEnsemble(&config.Config)
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.patience, c.hurry = context.WithCancel(context.WithoutCancel(ctx))
	return &Client{core: c, chroot: paths.Chroot(config.Chroot)}
}

func (c *Client) start() {
	if c.core.opts.Tracers.ObserveState() {
		connecting := c.core.states.current()
		c.core.wg.Go(func() { c.core.traceStates(connecting) })
	}
	c.core.open()
	c.core.wg.Go(c.core.run)
	if c.core.opts.Members != nil {
		c.core.wg.Go(c.core.followMembers)
	}
	if c.core.opts.Rebalance > 0 {
		c.core.wg.Go(c.core.rebalance)
	}
}

// Close implements conn.Client.Close.
func (c *Client) Close() error {
	if c.isSub {
		c.gone.Store(true)
		return nil
	}
	c.core.close(c.core.patience)
	return nil
}

// State returns the state of the connection.
func (c *Client) State() zkrecipes.State { return c.core.states.current().state }

// States implements conn.Client.States.
func (c *Client) States(ctx context.Context) iter.Seq[zkrecipes.State] { return c.core.states.all(ctx) }

// Explain is [session.Session.Explain] for a call that has no session at hand.
func (c *Client) Explain(cause error) error {
	return session.WithReason(cause, c.core.WhyDisconnected())
}

// Session implements conn.Client.Session.
func (c *Client) Session(ctx context.Context) (*session.Session, error) { return c.session(ctx, false) }

// Await is Session for background work. While all servers reject the credentials, it waits: the client retries with
// pauses, and the credentials may be accepted later.
func (c *Client) Await(ctx context.Context) (*session.Session, error) { return c.session(ctx, true) }

func (c *Client) session(ctx context.Context, patient bool) (*session.Session, error) {
	if ctx == nil {
		return nil, session.ErrNoContext
	}
	for {
		c.core.mu.Lock()
		s, changed, isClosed, refused := c.core.session, c.core.changed, c.core.closed, c.core.refused
		why := c.core.whyDisconnected()
		c.core.mu.Unlock()
		switch {
		case isClosed || c.gone.Load():
			return nil, zkrecipes.ErrClosed
		case ctx.Err() != nil:
			return nil, session.WithReason(context.Cause(ctx), why)
		case s.Live():
			return s.At(c.chroot), nil
		case refused != nil && !patient:
			return nil, refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Sub implements conn.Client.Sub.
func (c *Client) Sub(prefix string) (*Client, error) {
	if err := paths.Validate(prefix); err != nil {
		return nil, fmt.Errorf("sub: %w", err)
	}
	if c.gone.Load() || c.State() == zkrecipes.Closed {
		return nil, fmt.Errorf("sub %s: %w", prefix, zkrecipes.ErrClosed)
	}
	return &Client{core: c.core, chroot: c.chroot.Sub(prefix), isSub: true}, nil
}

// Identity implements conn.Client.Identity.
func (c *Client) Identity() string { return c.core.opts.Identity }

// WasOurs reports whether the session is an earlier session of this client. The servers may still keep such a session.
func (c *Client) WasOurs(session int64) bool {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	return slices.Contains(c.core.earlier, session)
}

// Reroot returns s with paths below the root of this client. s must come from this client, or from one that is the
// Same.
func (c *Client) Reroot(s *session.Session) *session.Session { return s.At(c.chroot) }

// Same reports whether both clients share a connection, like a client created by [Client.Sub] and its origin.
func (c *Client) Same(other *Client) bool { return c.core == other.core }

// Abs translates a path of this client to the path on the server.
func (c *Client) Abs(path string) string { return c.chroot.Abs(path) }

// Rel translates a path on the server to this client's. It returns "" if the path is not below the client's root.
func (c *Client) Rel(path string) string { return c.chroot.Rel(path) }

// Bounded returns the context for one call of the program, which takes turns with others; see [session.Config.Bounded].
func (c *Client) Bounded(ctx context.Context) context.Context { return c.core.opts.Bounded(ctx) }

// Tracers returns the tracers of the client, or nil if there are none.
func (c *Client) Tracers() *trace.Tracers { return c.core.opts.Tracers }

// Logger returns the logger of the client. A record does not wait for the handler, which runs on a goroutine of its
// own.
func (c *Client) Logger() *slog.Logger { return c.core.opts.Log }

// Go runs f on a goroutine that the client owns: ctx is canceled when the client is closed, and Close waits for f. Once
// the client is closed, it does not run f and reports false.
func (c *Client) Go(f func(ctx context.Context)) bool {
	return !c.gone.Load() && c.core.Start(c.core.ctx, f)
}

// sessionFor is Session for an operation, which is named in the error.
func (c *Client) sessionFor(ctx context.Context, op, path string) (*session.Session, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, &session.OpError{Op: op, Path: path, Err: err}
	}
	return s, nil
}

// InSession calls f with the live session, and again with the next one if f failed because its session ended. The error
// shows that by matching the loss. An answer from the server counts even if the session has since ended. InSession does
// not repeat a write in doubt: whether that may be done depends on the write. See writeVersioned and package record.
//
// Errors: an invalid path, immediately; those of f; ErrClosed, ErrAuthFailed or the cause of ctx, as errors of the
// operation on the path.
func (c *Client) InSession(ctx context.Context, op, path string, f func(*session.Session) error) error {
	return c.inSession(ctx, c.Session, op, path, f)
}

// InSessions is InSession for background work: it waits for a session with [Client.Await].
func (c *Client) InSessions(ctx context.Context, op, path string, f func(*session.Session) error) error {
	return c.inSession(ctx, c.Await, op, path, f)
}

func (c *Client) inSession(
	ctx context.Context, open func(context.Context) (*session.Session, error), op, path string,
	f func(*session.Session) error,
) error {
	if err := paths.Check(op, path); err != nil {
		return err
	}
	for {
		s, err := open(ctx)
		if err != nil {
			return &session.OpError{Op: op, Path: path, Err: err}
		}
		err = f(s)
		if ended := s.Err(); ended == nil || !errors.Is(err, ended) || errors.Is(err, zkrecipes.ErrUnknownOutcome) {
			return err
		}
	}
}

// Get implements conn.Client.Get.
func (c *Client) Get(ctx context.Context, path string) (data []byte, stat zk.Stat, err error) {
	err = c.InSession(ctx, "get", path, func(s *session.Session) (err error) {
		data, stat, err = s.Get(ctx, path)
		return err
	})
	return data, stat, err
}

// Exists implements conn.Client.Exists.
func (c *Client) Exists(ctx context.Context, path string) (exists bool, stat zk.Stat, err error) {
	err = c.InSession(ctx, "exists", path, func(s *session.Session) (err error) {
		exists, stat, err = s.Exists(ctx, path)
		return err
	})
	return exists, stat, err
}

// Children implements conn.Client.Children.
func (c *Client) Children(ctx context.Context, path string) (names []string, err error) {
	err = c.InSession(ctx, "children", path, func(s *session.Session) (err error) {
		names, err = s.Children(ctx, path)
		return err
	})
	return names, err
}

// ACL implements conn.Client.ACL.
func (c *Client) ACL(ctx context.Context, path string) (list []zk.ACL, stat zk.Stat, err error) {
	err = c.InSession(ctx, "acl", path, func(s *session.Session) (err error) {
		list, stat, err = s.ACL(ctx, path)
		return err
	})
	return list, stat, err
}

// Sync implements conn.Client.Sync.
func (c *Client) Sync(ctx context.Context, path string) error {
	return c.InSession(ctx, "sync", path, func(s *session.Session) error { return s.Sync(ctx, path) })
}

// Barrier is [session.Session.Barrier] in the current session or a later one, as part of the operation op.
func (c *Client) Barrier(ctx context.Context, op, path string) error {
	return c.InSession(ctx, op, path, func(s *session.Session) error { return s.Barrier(ctx) })
}

// Create implements conn.Client.Create.
func (c *Client) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	if err := session.CheckCreate(path, flags); err != nil {
		return "", err
	}
	s, err := c.sessionFor(ctx, "create", path)
	if err != nil {
		return "", err
	}
	return s.Create(ctx, path, data, flags, acl...)
}

// CreateTTL implements conn.Client.CreateTTL.
func (c *Client) CreateTTL(
	ctx context.Context, path string, data []byte, flags int32, ttl time.Duration, acl ...zk.ACL,
) (string, error) {
	if _, _, err := session.CheckTTL(path, flags, ttl); err != nil {
		return "", err
	}
	s, err := c.sessionFor(ctx, "create", path)
	if err != nil {
		return "", err
	}
	return s.CreateTTL(ctx, path, data, flags, ttl, acl...)
}

// Multi implements conn.Client.Multi.
func (c *Client) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	if err := session.CheckOps(ops); err != nil {
		return nil, err
	}
	s, err := c.sessionFor(ctx, "multi", ops[0].Path)
	if err != nil {
		return nil, err
	}
	return s.Multi(ctx, ops...)
}

// Set implements conn.Client.Set.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	g := guard{version: version, of: dataVersion}
	return writeVersioned(ctx, c, "set", path, g, len(data), func(s *session.Session) (zk.Stat, error) {
		return s.Set(ctx, path, data, version)
	})
}

// SetACL implements conn.Client.SetACL.
func (c *Client) SetACL(ctx context.Context, path string, list []zk.ACL, version int32) (zk.Stat, error) {
	if err := session.CheckSetACL(path, list); err != nil {
		return zk.Stat{}, err
	}
	size := len(wire.SetACLFrame(path, list, version))
	g := guard{version: version, of: func(now zk.Stat) int32 { return now.Aversion }}
	return writeVersioned(ctx, c, "set acl", path, g, size, func(s *session.Session) (zk.Stat, error) {
		return s.SetACL(ctx, path, list, version)
	})
}

// Delete implements conn.Client.Delete.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	return c.DeleteRead(ctx, path, zk.Stat{Version: version})
}

// DeleteRead is Delete for the version of a node that was read. If a reply is lost and a different node exists by then,
// the delete is not sent again, and the error matches ErrUnknownOutcome. One case remains: the node is replaced after
// that check, and the new node has the same version.
func (c *Client) DeleteRead(ctx context.Context, path string, read zk.Stat) error {
	g := guard{version: read.Version, of: dataVersion, czxid: read.Czxid}
	_, err := writeVersioned(ctx, c, "delete", path, g, len(path), func(s *session.Session) (zk.Stat, error) {
		if read.Czxid == 0 {
			return zk.Stat{}, s.Delete(ctx, path, read.Version)
		}
		return zk.Stat{}, s.DeleteRead(ctx, path, read.Version)
	})
	if errors.Is(err, errMissing) {
		return nil
	}
	return err
}

// errMissing is the error of writeVersioned if the node is missing after a lost reply, whoever deleted it. For Delete,
// that is success; for the others the outcome is unknown.
var errMissing = errors.New("the node is gone")
