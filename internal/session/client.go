package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Client is the user's handle on an ensemble. It lives through many sessions. It is safe for concurrent use, and one
// per process and ensemble is enough: any number of recipes share it.
type Client struct {
	core   *core
	prefix string
	gone   atomic.Bool // only for a client made by Sub: it was closed
	sub    bool
}

// New makes a client, which connects in the background. Its requests for itself have the values of ctx.
func New(ctx context.Context, config *Config) *Client {
	client := newClient(ctx, config)
	client.start()
	return client
}

// Open connects and waits for the first session. ctx bounds the waiting only. After an error nothing is left behind.
func Open(ctx context.Context, config *Config) (*Client, error) {
	client := newClient(ctx, config)
	if err := client.core.hosts.requireAddress(ctx, 5*time.Second); err != nil {
		return nil, err
	}
	client.start()
	if _, err := client.Session(ctx); err != nil {
		_ = client.Close() // never fails
		return nil, err
	}
	return client, nil
}

func newClient(ctx context.Context, config *Config) *Client {
	c := &core{
		opts: config, log: newLogQueue(), states: newStateLog(), changed: make(chan struct{}), claims: make(map[string]*Claim), shared: make(map[string]any),
	}
	config.MaxRequest = cmp.Or(config.MaxRequest, maxRequest)
	config.MaxReply = cmp.Or(config.MaxReply, maxReply)
	config.Log = c.log.logger(config.Log)
	c.hosts = newHosts(config)
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return &Client{core: c, prefix: config.Chroot}
}

func (c *Client) start() {
	if c.core.opts.Tracers.ObserveState() {
		connecting := c.core.states.current()
		c.core.wg.Go(func() { c.core.traceStates(connecting) })
	}
	c.core.open()
	c.core.wg.Go(c.core.run)
}

// Close ends the session, and with it every hold and ephemeral node, waits for everything the client has started, and
// returns nil. It tries for at most a second to tell the server. If there is no connection, or the server does not answer, the
// nodes go when the session expires. Close is idempotent; afterwards everything returns [zkrecipes.ErrClosed].
//
// On a client made by [Client.Sub] it closes only that client: new calls on it fail, the connection and its state stay.
func (c *Client) Close() error {
	if c.sub {
		c.gone.Store(true)
		return nil
	}
	c.core.mu.Lock()
	c.core.closed = true
	s := c.core.session
	c.core.broadcast() // the session may be over, and then nothing else wakes the callers that wait for the next
	c.core.mu.Unlock()
	s.end(lost(zkrecipes.LossClosed, time.Now(), zkrecipes.ErrClosed))
	c.core.transit(closed, s.circumstances(nil), "reason", zkrecipes.LossClosed.String())()
	c.core.stop()
	c.core.wg.Wait()
	c.core.log.flush()
	return nil
}

// State returns the state of the connection.
func (c *Client) State() State { return c.core.states.current().state }

// States returns the state now, then every transition, until ctx ends or the client is closed. However slow the
// caller, it misses none.
func (c *Client) States(ctx context.Context) iter.Seq[State] { return c.core.states.all(ctx) }

// Session returns the live session, waiting for it if there is none. It may be disconnected at the moment.
//
// Errors: ErrClosed, ErrAuthFailed, or the cause of ctx with the reason why no server gave a session.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	for {
		c.core.mu.Lock()
		s, changed, isClosed, lastErr := c.core.session, c.core.changed, c.core.closed, c.core.lastErr
		obstacle := c.core.obstacle()
		c.core.mu.Unlock()
		switch {
		case isClosed || c.gone.Load():
			return nil, zkrecipes.ErrClosed
		case ctx.Err() != nil:
			return nil, withReason(context.Cause(ctx), obstacle)
		case s.live():
			return &Session{session: s, prefix: c.prefix}, nil
		case errors.Is(lastErr, ErrAuthFailed):
			return nil, lastErr
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Sub returns a client on the same connection whose root is prefix. The node need not exist: recipes create it, Create and
// Multi do not.
func (c *Client) Sub(prefix string) (*Client, error) {
	if err := ValidatePath(prefix); err != nil {
		return nil, fmt.Errorf("sub: %w", err)
	}
	if c.gone.Load() || c.State() == Closed {
		return nil, fmt.Errorf("sub %s: %w", prefix, zkrecipes.ErrClosed)
	}
	if prefix == "/" {
		prefix = ""
	}
	return &Client{core: c.core, prefix: c.prefix + prefix, sub: true}, nil
}

// Identity returns the name under which this client appears to others, see [WithIdentity].
func (c *Client) Identity() string { return c.core.opts.Identity }

// View returns s with the paths of this client. s must come from this client, or from a client that is the Same.
func (c *Client) View(s *Session) *Session { return &Session{session: s.session, prefix: c.prefix} }

// Same reports whether both clients share a connection, as a client made by [Client.Sub] and its origin do.
func (c *Client) Same(other *Client) bool { return c.core == other.core }

// Abs returns the path on the server of what this client calls path.
func (c *Client) Abs(path string) string { return (&Session{prefix: c.prefix}).abs(path) }

// Logger returns the logger of the client. Its methods never wait for the handler.
func (c *Client) Logger() *slog.Logger { return c.core.opts.Log }

// Go runs f on a goroutine that the client owns: ctx ends with the client, and Close waits for f. It reports false, and does
// not run f, once the client is closed.
func (c *Client) Go(f func(ctx context.Context)) bool {
	return !c.gone.Load() && c.core.start(func() { f(c.core.ctx) })
}

// live reports that the session has come up and has not ended.
func (s *session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost == nil && !s.since.IsZero()
}

// sessionFor is Session for an operation, which the error names.
func (c *Client) sessionFor(ctx context.Context, op, path string) (*Session, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, &OpError{Op: op, Path: path, Err: err}
	}
	return s, nil
}

// read calls f with the live session. If that session ends, read calls f with the next one.
func read[T any](ctx context.Context, c *Client, op, path string, f func(*Session) (T, error)) (T, error) {
	for {
		s, err := c.sessionFor(ctx, op, path)
		if err != nil {
			var none T
			return none, err
		}
		v, err := f(s)
		if err == nil || s.Err() == nil {
			return v, err
		}
	}
}

// Get returns a node's data and Stat; it survives reconnects and sessions, within ctx.
func (c *Client) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	d, err := read(ctx, c, "get", path, func(s *Session) (wire.Data, error) {
		b, stat, err := s.Get(ctx, path)
		return wire.Data{Bytes: b, Stat: stat}, err
	})
	return d.Bytes, d.Stat, err
}

// Exists reports whether there is a node, and its Stat; it survives reconnects and sessions, within ctx.
func (c *Client) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	e, err := read(ctx, c, "exists", path, func(s *Session) (existence, error) {
		exists, stat, err := s.Exists(ctx, path)
		return existence{exists, stat}, err
	})
	return e.exists, e.stat, err
}

// Children returns the names of a node's children, in no order; it survives reconnects and sessions, within ctx.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	return read(ctx, c, "children", path, func(s *Session) ([]string, error) { return s.Children(ctx, path) })
}

// Sync waits until the server has caught up with the leader; it survives reconnects and sessions, within ctx.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := read(ctx, c, "sync", path, func(s *Session) (struct{}, error) { return struct{}{}, s.Sync(ctx, path) })
	return err
}

// Create makes a node, see [Session.Create]; an ephemeral one goes with the session that is live now. It is tried once:
// if the reply is lost, the error matches ErrUnknownOutcome.
func (c *Client) Create(ctx context.Context, path string, b []byte, flags int32, acl ...zk.ACL) (string, error) {
	s, err := c.sessionFor(ctx, "create", path)
	if err != nil {
		return "", err
	}
	return s.Create(ctx, path, b, flags, acl...)
}

// Multi applies the operations all or none, see [Session.Multi]. It is tried once.
func (c *Client) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	path := ""
	if len(ops) > 0 {
		path = ops[0].Path
	}
	s, err := c.sessionFor(ctx, "multi", path)
	if err != nil {
		return nil, err
	}
	return s.Multi(ctx, ops...)
}

// Set replaces a node's data if its version is the given one; -1 is any. If the reply to a versioned Set is lost, Set looks: if
// the node still has the version, it was not applied, and is sent again. (A node that was deleted and made again meanwhile
// may have that version, too.) Otherwise the error matches ErrUnknownOutcome: this Set or another client changed the node.
func (c *Client) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	return versioned(ctx, c, "set", path, version, len(b), func(s *Session) (zk.Stat, error) { return s.Set(ctx, path, b, version) })
}

// Delete removes a node if its version is the given one; -1 is any. If the reply is lost, Delete looks: if the node is gone,
// that is success; if it still has the version, it is deleted again, also if another client has made it since. Otherwise,
// and always with -1, the node may be another client's by now, and the error matches ErrUnknownOutcome.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := versioned(ctx, c, "delete", path, version, len(path), func(s *Session) (zk.Stat, error) {
		return zk.Stat{}, s.Delete(ctx, path, version)
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

var errGone = errors.New("the node is gone")

// versioned does a write of about so many bytes, whose version guards against applying it twice.
func versioned(ctx context.Context, c *Client, op, path string, version int32, size int, write func(*Session) (zk.Stat, error),
) (zk.Stat, error) {
	var doubt error // of an earlier try, which may have been applied, or may still be
	var hangups Hangups
	for {
		s, err := c.sessionFor(ctx, op, path)
		if err != nil {
			return zk.Stat{}, errors.Join(doubt, err)
		}
		stat, err := write(s)
		err = hangups.Judge(size, err)
		if !errors.Is(err, zkrecipes.ErrUnknownOutcome) || wire.ServerFault(err) {
			switch {
			case err != nil && !wire.ServerFault(err) && s.Err() != nil:
				continue // the session ended before the write began
			case doubt != nil && errors.Is(err, zk.ErrNoNode):
				return stat, fmt.Errorf("%w: %w", errGone, doubt)
			case doubt != nil && err != nil:
				return stat, errors.Join(doubt, err)
			}
			return stat, err
		}
		if errors.Is(err, ErrTooLarge) {
			return stat, err
		}
		doubt = err
		// The sync makes the read newer than the write in question, as far as that has reached the leader.
		if syncErr := c.Sync(ctx, path); syncErr != nil {
			return stat, errors.Join(err, syncErr)
		}
		exists, now, readErr := c.Exists(ctx, path)
		switch {
		case readErr != nil:
			return stat, errors.Join(err, readErr)
		case !exists:
			return stat, fmt.Errorf("%w: %w", errGone, err)
		case version == -1 || now.Version != version:
			return stat, err
		}
		_ = Sleep(ctx, RetryPause) // the next try looks at ctx
	}
}
