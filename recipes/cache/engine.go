package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// engine follows the nodes, on one goroutine. It takes the news from the feed in the order in which the server sent it,
// and sends requests, so an answer is never older than an event that was handled before it.
//
// It passes on what the server reports and leaves decisions to its helpers: nodes knows which nodes exist, plan what
// must be requested, rounds which complete passes have ended, and waiters which callers wait for one. Readers compare
// czxids (nodes.difference), so a node that was deleted and created again between two reads is reported as both. The
// fields are guarded by Cache.mu.
type engine struct {
	cache   *Cache
	nodes   nodes
	plan    plan
	rounds  rounds
	waiters waiters
	err     error // why the engine has ended
	denied  error // why all servers refuse the client; nil in a session

	feed        *session.Feed // of the current session
	connected   bool
	epoch       int       // counts connections
	zxid        int64     // the latest that an answer has reported; see noteZxid
	behind      bool      // the server has not caught up to zxid, and requests must follow a sync
	lastContact time.Time // when the latest request that was answered and handled had been sent
	asOf        instant   // see View; rounds, events and Cache.view advance it

	inflight int
	large    int  // bytes of the largest recent answer
	mustRest bool // a pause, see restTime
	present  bool // the latest probe found the root
}

func newEngine(c *Cache, path string) *engine {
	e := &engine{cache: c, nodes: newNodes(path, c.config.depth)}
	e.nodes.filter, e.nodes.noData = c.config.filter, c.config.noData
	e.nodes.changing = func(n *node) { c.note(n, false) }
	e.nodes.going = func(n *node) {
		if n.known {
			c.note(n, true)
		}
		e.plan.clear(part{n, data})
		e.plan.clear(part{n, list})
	}
	return e
}

// run follows the nodes in one session after another. When patience ends, it no longer waits for watches to be removed.
func (c *Cache) run(ctx, patience context.Context) {
	follow := func(s *session.Session) error {
		f := s.Follow(c.Path(), c.needs)
		over := c.follow(ctx, s, f)
		f.Stop() // before release: a cache that is closed at the same time must not leave its watches to this one
		if !over {
			return s.Err()
		}
		c.release(patience, s, f)
		return nil
	}
	err := c.client.InSession(ctx, "follow", c.Path(), follow)
	for errors.Is(err, zkrecipes.ErrAuthFailed) && ctx.Err() == nil { // the client keeps trying
		c.refuse(err)
		_, _ = c.client.Await(ctx) // if it fails, so does the next line
		err = c.client.InSession(ctx, "follow", c.Path(), follow)
	}
	switch {
	case err == nil: // the engine has ended
	case ctx.Err() != nil && !errors.Is(err, zkrecipes.ErrClosed):
		c.end(recipe.Closed("cache"))
	default:
		c.end(err)
	}
}

// refuse records that the servers refuse the client, and wakes all callers with the error.
func (c *Cache) refuse(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine.denied = why
	c.engine.waiters.wakeAll(why)
}

// end records why the engine ends, and wakes all callers.
func (c *Cache) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engine
	if e.err == nil {
		e.err = err
	}
	if c.client.State() == zkrecipes.Closed {
		e.err = zkrecipes.ErrClosed
	}
	e.down()
	e.waiters.wakeAll(e.err)
}

// follow follows the nodes within one session. It returns true if the engine should end.
func (c *Cache) follow(ctx context.Context, s *session.Session, f *session.Feed) (over bool) {
	e := c.engine
	c.mu.Lock()
	e.feed, e.denied = f, nil
	e.begin()
	c.mu.Unlock()
	recheck := time.NewTicker(c.config.recheck)
	defer recheck.Stop()
	restOver := time.NewTimer(restTime)
	defer restOver.Stop()
	resting := true // until the timer fires
	for {
		news := f.Take()
		b, rests, err := c.handle(news)
		// Without mu, because sending may find that the connection is gone, and then notifies tracers of losses.
		if b.Len() > 0 && !b.Send() {
			c.mu.Lock()
			e.connected = false // nothing was sent; begin finds what to send once there is a connection again
			c.mu.Unlock()
		}
		switch {
		case err != nil:
			c.end(err)
			return true
		case len(news) > 0 && ctx.Err() == nil: // news may never cease, and Close and a recheck must not wait until it does
			select {
			case <-recheck.C:
				c.recheck()
			default:
			}
			continue
		case rests && !resting: // however many events arrive in the meantime
			restOver.Reset(restTime)
			resting = true
		}
		select {
		case <-f.Wake():
		case <-c.poke:
		case <-restOver.C:
			c.mu.Lock()
			e.mustRest = false
			c.mu.Unlock()
			resting = false
		case <-recheck.C:
			c.recheck()
		case <-s.Done():
			c.sessionOver(f)
			return false
		case <-ctx.Done():
			c.end(recipe.Closed("cache"))
			return true
		}
	}
}

func (c *Cache) recheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine.recheck()
}

// handle handles news. It returns what must be sent, whether the engine should rest, and why it has ended.
func (c *Cache) handle(news []session.News) (b *session.Batch, rests bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.engine
	for _, n := range news {
		e.hear(n)
	}
	e.advance()
	b = e.batch()
	return b, e.mustRest, e.err
}

// sessionOver handles the last news of a session that has ended.
func (c *Cache) sessionOver(f *session.Feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range f.Take() {
		c.engine.hear(n)
	}
	c.engine.down()
}

// restTime is how long the engine pauses if the server is shedding load, or is behind.
const restTime = 10 * time.Millisecond

// hear handles news.
func (e *engine) hear(n session.News) {
	switch n.Kind {
	case session.Changed:
		e.advanceIfClean(n.LastContact)
		e.changed(n)
	case session.Down:
		e.advanceIfClean(n.LastContact)
		e.down()
	case session.Up:
		e.begin()
	case session.Answered:
		r, ok := n.For.(*request)
		if !ok || r.epoch != e.epoch {
			return
		}
		e.inflight--
		e.large = max(n.Bytes, e.large-e.large/8)
		e.answered(r, &n.Answer)
	}
}

// begin handles a new connection, on which no watch is set. It makes every part dirty that has a watch to lose or has
// yet to be read. Parts to which nothing is known to have happened need only their watches: SetWatches (rewatch.go)
// names the transaction since which these may be missing, the server reports what has changed since, and only that is
// read.
func (e *engine) begin() {
	e.connected, e.mustRest = true, false
	e.epoch++
	e.inflight = 0
	e.waiters.retry()
	e.rounds.restart()
	since, next := e.plan.restart(e.zxid), e.rounds.next()
	e.nodes.root.allParts(func(p part) {
		was := *p.state()
		*p.state() = clean
		switch {
		case was&(stale|again) != 0, e.nodes.hasFailed(p), p == e.nodes.rootData() && e.zxid == 0:
			e.plan.markStale(p, next)
		case was&unwatched != 0, e.nodes.watched(p):
			e.plan.markUnwatched(p, since, next)
		}
	})
}

// down records that the connection is gone, or will no longer be used.
func (e *engine) down() {
	e.connected = false
	e.rounds.interrupt()
	e.cache.tellReaders()
}

// changed makes the parts that an event affects stale. If one is being read, it is read again after the answer: see
// state.
func (e *engine) changed(event session.News) {
	n := e.nodes.find(event.Path)
	if n == nil {
		return
	}
	own, kids := part{n, data}, part{n, list}
	if !e.nodes.watched(own) && *own.state() == clean {
		return // it was found to be gone
	}
	if event.Event == zk.EventNodeChildrenChanged || event.Event == zk.EventNodeDeleted {
		if e.nodes.watched(kids) {
			e.plan.markStale(kids, e.rounds.next())
		}
	}
	if event.Event != zk.EventNodeChildrenChanged {
		e.plan.markStale(own, e.rounds.next())
	}
}

// advanceIfClean moves asOf to a time at which no part was dirty.
func (e *engine) advanceIfClean(at time.Time) {
	if e.rounds.caughtUp && e.plan.pending() == 0 {
		e.asOf.advance(at)
	}
}

// advance ends the round if it can, and begins the next.
func (e *engine) advance() {
	if !e.connected || e.lastContact.IsZero() {
		return
	}
	was := e.rounds.caughtUp
	asOf := e.rounds.advance(e.plan.dirty, e.lastContact)
	if asOf.IsZero() {
		return
	}
	e.asOf.advance(asOf)
	e.waiters.wake(e.rounds.ended)
	if !was {
		e.cache.tellReaders()
	}
}

// instant is a time that only advances, so that what a caller has seen remains true.
type instant struct {
	mu sync.Mutex
	at time.Time
}

// advance moves the time to t unless it is already later, and returns it.
func (i *instant) advance(t time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if t.After(i.at) {
		i.at = t
	}
	return i.at
}
