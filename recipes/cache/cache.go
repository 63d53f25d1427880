package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Cache is an in-memory copy of ZooKeeper nodes that follows changes to them. It is safe for concurrent use.
type Cache struct {
	client *client.Client
	config config
	stop   context.CancelFunc // ends the engine
	hurry  context.CancelFunc // ends the removal of its watches
	poke   chan struct{}      // wakes the engine; has room for one
	done   chan struct{}      // closed once the engine has ended

	mu      sync.RWMutex
	engine  *engine
	readers map[*reader]struct{}
}

// Option configures a cache.
type Option func(*config) error

type config struct {
	depth   int
	nodes   int
	bytes   int64
	window  int
	recheck time.Duration
	tree    bool
	filter  func(path string) Scope // nil keeps everything
	noData  bool
}

const unlimited = 1 << 30 // more levels than a path can have

// WithDepth limits how many levels below the root a [Tree] follows, at least 1; by default it follows all of them. A
// tree of depth 1 is the same as [Children].
func WithDepth(levels int) Option {
	return func(c *config) error {
		switch {
		case !c.tree:
			return errors.New("WithDepth: only cache.Tree has a depth")
		case levels < 1:
			return fmt.Errorf("WithDepth: %d levels: want at least 1", levels)
		}
		c.depth = levels
		return nil
	}
}

// Scope is how much of a node, and of what is below it, a cache keeps; see [WithFilter].
type Scope int

// The scopes that a filter may return.
const (
	Whole   Scope = iota // the node and everything below it
	Alone                // the node, and nothing below it
	Nothing              // neither the node nor anything below it
)

// WithFilter leaves out the parts of a tree that you do not need: the cache neither reads nor watches them. By default
// it keeps everything. When the cache reads the children of a node that is kept [Whole], it calls the filter with the
// path of each child. Because the filter runs inside the cache, it must return quickly and must not call the cache. It
// must also return the same result whenever it is called with the same path. A node's Stat still counts all of its
// children, and the cache still rereads the list of their names whenever any of them is created or deleted.
//
// Source: TreeCacheSelector of Curator's TreeCache.
func WithFilter(filter func(path string) Scope) Option {
	return func(c *config) error {
		if filter == nil {
			return errors.New("WithFilter: the function is nil: want one that returns a scope")
		}
		c.filter = filter
		return nil
	}
}

// WithoutData makes the cache keep names and Stats but no data, so that large data takes no memory. Entry.Data is nil
// and DataLength is 0, but changes to the data are still reported. The cache still has to read the data, because a
// request for the Stat alone would leave a watch on the server if the node has been deleted by then.
//
// Source: setCacheData(false) of Curator's TreeCache.
func WithoutData() Option {
	return func(c *config) error {
		c.noData = true
		return nil
	}
}

// WithMaxNodes limits how many nodes the cache may hold; the default is 1,000,000. If there are more, the cache stops
// with [ErrTooMuch].
func WithMaxNodes(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("WithMaxNodes: %d nodes: want at least 1", n)
		}
		c.nodes = n
		return nil
	}
}

// WithMaxBytes limits how many bytes the data and names of all nodes may take together; the default is 256 MiB. If they
// take more, the cache stops with [ErrTooMuch].
func WithMaxBytes(n int64) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("WithMaxBytes: %d bytes: want at least 1", n)
		}
		c.bytes = n
		return nil
	}
}

// WithWindow limits how many requests the cache may have in flight; the default is 256. The cache lowers this limit if
// replies are large.
func WithWindow(requests int) Option {
	return func(c *config) error {
		if requests < 1 {
			return fmt.Errorf("WithWindow: %d requests: want at least 1", requests)
		}
		c.window = requests
		return nil
	}
}

// WithRecheck sets how often the cache verifies all its watches and retries nodes that it could not read, as
// [Cache.Sync] does; the default is 5 minutes. With a shorter interval, changes whose events were withheld are found
// sooner, at the cost of more reads.
func WithRecheck(interval time.Duration) Option {
	return func(c *config) error {
		if interval < time.Second {
			return fmt.Errorf("WithRecheck: %v: want at least 1s", interval)
		}
		c.recheck = interval
		return nil
	}
}

// ErrTooMuch is returned when there are more nodes or bytes than the cache may hold. The cache has stopped, so its
// entries become stale; raise [WithMaxNodes] or [WithMaxBytes], or use [WithFilter].
var ErrTooMuch = errors.New("too much to cache")

// Node returns a cache of one node, which doesn't have to exist yet. It does not contact the servers: the cache reads
// the node in the background, and [Cache.Ready] waits for that. Close the cache when you no longer need it.
//
// Errors: a nil client; a path that is relative or malformed; an invalid option; ErrClosed.
func Node(c *conn.Client, path string, opts ...Option) (*Cache, error) {
	return open((*client.Client)(c), path, config{depth: 0}, opts)
}

// Children is like [Node], but returns a cache of a node and its children.
func Children(c *conn.Client, path string, opts ...Option) (*Cache, error) {
	return open((*client.Client)(c), path, config{depth: 1}, opts)
}

// Tree is like [Node], but returns a cache of a node and all nodes below it.
func Tree(c *conn.Client, path string, opts ...Option) (*Cache, error) {
	return open((*client.Client)(c), path, config{depth: unlimited, tree: true}, opts)
}

func open(client *client.Client, path string, cfg config, opts []Option) (*Cache, error) {
	cfg.nodes, cfg.bytes, cfg.window, cfg.recheck = 1_000_000, 256<<20, 256, 5*time.Minute
	errs := []error{recipe.Apply(&cfg, opts), paths.Validate(path)}
	if client == nil {
		errs = append(errs, errors.New("client is nil: create one with conn.Dial"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := &Cache{
		client: client, config: cfg, poke: make(chan struct{}, 1), done: make(chan struct{}),
		readers: map[*reader]struct{}{},
	}
	c.engine = newEngine(c, path)
	started := make(chan struct{})
	if !c.client.Go(func(ctx context.Context) {
		defer close(c.done)
		var patience context.Context
		patience, c.hurry = context.WithCancel(ctx)
		defer c.hurry()
		ctx, c.stop = context.WithCancel(patience)
		close(started)
		c.run(ctx, patience)
	}) {
		return nil, fmt.Errorf("cache %s: %w", path, zkrecipes.ErrClosed)
	}
	<-started
	return c, nil
}

// Close stops the cache and removes its watches from the server, which takes a request for each node. If you are about
// to close the client anyway, do that first to save these requests. You can still read entries after Close. Close is
// idempotent.
//
// Errors: context.Cause(ctx), in which case some watches may remain on the server.
func (c *Cache) Close(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("close cache %s: %w", c.Path(), session.ErrNoContext)
	}
	c.stop()
	select {
	case <-c.done: // even if ctx is done
		return nil
	default:
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		c.hurry()
		<-c.done
		return fmt.Errorf("close cache %s: its watches may remain: %w", c.Path(), c.client.Explain(context.Cause(ctx)))
	}
}

// Path returns the path of the cache's root.
func (c *Cache) Path() string { return c.engine.nodes.path }

// Entry is a node as the cache knows it.
type Entry struct {
	Path string
	Data []byte // owned by the cache: do not modify it
	// Stat is from the most recent read. If the cache follows the node's children, Cversion, Pzxid and NumChildren are
	// from the latest list of children or, before there is one, from the node's creation. If it doesn't, changes to
	// these three trigger no event, and changes to Aversion never do, so they can be stale until the data is read
	// again.
	zk.Stat
	// Err is why the node, or its list of children, could not be read or decoded. If it is set, the other fields are
	// from an earlier read, or empty.
	Err error
}

// Name returns the last element of the path.
func (e Entry) Name() string { return e.Path[strings.LastIndexByte(e.Path, '/')+1:] }

// View reports how fresh and how complete a cache is.
type View struct {
	// Freshness reports how up to date the cache is: it has everything that its server had at AsOf, which is zero until
	// the cache is complete for the first time. Current is true from when the cache is complete on a connection until
	// the connection is lost or silent, or the cache stops. It stays true while parts are pending, but AsOf then stands
	// still.
	zkrecipes.Freshness
	// Exists reports whether the root exists.
	Exists bool
	// Nodes and Bytes are how many nodes the cache holds, and how many bytes of names and data.
	Nodes int
	Bytes int64
	// Pending is how many parts still need to be read or watched again. A part is a node's data, or its list of
	// children.
	Pending int
	// Failed is how many parts could not be read on the last attempt; their nodes' Entry.Err is set. Because ZooKeeper
	// does not notify the cache when they become readable, [Cache.Sync] and each recheck try again.
	Failed int
	// Err is why the cache has stopped, or nil if it has not.
	Err error
}

// Get returns the entry for path, and reports whether there is one.
func (c *Cache) Get(path string) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.engine.nodes.find(path)
	if n == nil || !n.known {
		return Entry{}, false
	}
	return c.engine.nodes.entry(n, path), true
}

// List returns the entries of a node's children, sorted by name.
func (c *Cache) List(path string) []Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.engine.nodes.find(path)
	if n == nil {
		return nil
	}
	prefix := path
	if prefix != "/" {
		prefix += "/"
	}
	var list []Entry
	for _, kid := range n.children() {
		if kid.known {
			list = append(list, c.engine.nodes.entry(kid, prefix+kid.name))
		}
	}
	return list
}

// Snapshot returns all entries as of a single moment, parents before their children, and how fresh they are.
func (c *Cache) Snapshot() ([]Entry, View) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	view := c.view()
	list := make([]Entry, 0, view.Nodes)
	c.engine.nodes.root.all(func(n *node) {
		if n.known {
			list = append(list, c.engine.nodes.entry(n, c.engine.nodes.pathOf(n)))
		}
	})
	return list, view
}

// View returns how fresh and how complete the cache is.
func (c *Cache) View() View {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.view()
}

// view is called with mu held.
func (c *Cache) view() View {
	e := c.engine
	v := View{
		Freshness: zkrecipes.Freshness{AsOf: e.asOf.advance(time.Time{}), Current: e.rounds.caughtUp},
		Exists:    e.nodes.root.known, Nodes: e.nodes.known, Bytes: e.nodes.bytes, Pending: e.plan.pending(),
		Failed: e.nodes.failed, Err: e.err,
	}
	if v.Current && v.Pending == 0 {
		// LastContact comes first: an event that the server sent before that answer is then already in the feed.
		if sent := e.feed.LastContact(); e.feed.Idle() {
			v.AsOf = e.asOf.advance(sent)
		}
	}
	v.Current = v.Current && e.err == nil && !e.feed.IsDown()
	return v
}

// Ready blocks until the cache is complete for the first time. It also returns if the root does not exist, because an
// empty cache is then complete.
//
// Errors: the reason the root cannot be read; [ErrTooMuch]; ErrClosed; ErrAuthFailed, after which the cache keeps
// trying; context.Cause(ctx).
func (c *Cache) Ready(ctx context.Context) error {
	return c.await(ctx, "ready", &waiter{done: make(chan struct{}), round: 1})
}

// Sync blocks until the cache has everything that was committed before the call. Use it to see your own writes, or
// after acquiring a lock. Sync also retries nodes that could not be read, and finds what was written while they were
// unreadable, with the exception that the package documentation describes. If a node still cannot be read, its
// Entry.Err is set, but Sync fails only if that node is the root; see View.Failed. If ZooKeeper's leader has just been
// replaced, the old one may still answer for up to 1.5 ticks, without having seen the latest transactions.
//
// Sync takes a sync, one request for every few thousand nodes, and a read of each node that has changed since the
// previous Sync or recheck. Concurrent calls share these requests. A call made during a recheck or an earlier Sync
// first waits for that to end.
//
// Errors: the same as [Cache.Ready].
func (c *Cache) Sync(ctx context.Context) error {
	return c.await(ctx, "sync", &waiter{done: make(chan struct{})})
}

// await waits until a round ends. Its errors are those of [Cache.Ready].
func (c *Cache) await(ctx context.Context, op string, w *waiter) error {
	if ctx == nil {
		return fmt.Errorf("%s cache %s: %w", op, c.Path(), session.ErrNoContext)
	}
	c.mu.Lock()
	e := c.engine
	w.err = cmp.Or(e.err, e.denied)
	if w.err == nil && !w.over(e.rounds.ended) {
		e.waiters.join(w)
	} else {
		close(w.done)
	}
	c.mu.Unlock()
	c.wake()
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done: // this counts even if ctx is done
		default:
			c.mu.Lock()
			e.waiters.leave(w)
			c.mu.Unlock()
			return fmt.Errorf("%s cache %s: %w", op, c.Path(), c.client.Explain(context.Cause(ctx)))
		}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if err := cmp.Or(e.err, w.err); err != nil {
		return fmt.Errorf("%s cache %s: %w", op, c.Path(), err)
	}
	return e.nodes.errs[e.nodes.root].err()
}

// wake makes the engine check for work.
func (c *Cache) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}
