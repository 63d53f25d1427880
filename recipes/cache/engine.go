package cache

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The engine follows the nodes. Each node has two parts, its data and the list of its children. A part is clean if its newest reading
// set a watch that has not fired, or if the watch was set again since and the server has said that nothing changed meanwhile.
// Everything else is dirty: it is read, or its watch is set again.
//
// One goroutine does it all. It takes the news from the feed, in the order in which the server spoke, and sends requests. So an
// answer is never older than an event that was handled before it.

type engine struct {
	cache *Cache
	tree
	nodes  int   // in the tree, with those of which only the name is known
	known  int   // nodes that exist
	bytes  int64 // of data and names
	errs   map[*node]failure
	failed int   // parts that have an error
	err    error // why the engine has ended

	feed      *session.Feed // of the present session
	connected bool
	zxid      int64 // the newest that was read
	behind    bool  // the server has not got as far as another before
	asOf      instant
	heard     time.Time // when the newest request was sent that was answered and handled

	reads    []task  // stale parts, the oldest first; some may not be stale any more
	bares    []*node // with parts that are bare; some may not be bare any more
	since    int64   // no bare part has been without a watch since an earlier transaction
	rearming map[*request]struct{}
	inflight int
	epoch    int // counts connections
	large    int // bytes of large answers lately
	rest     bool
	hangups  [3]int // the newest connections, in a row, that ended under a request to set watches
	readOnly bool   // the server cannot set watches; all are set by reading
	skip     int    // rechecks until that is tried again
	skipped  int    // how many were skipped last
	present  bool   // the root exists, says a request that was to set a watch on its creation

	verified int64 // all watches that were lost since an earlier transaction have been found
	verifies int64 // what verified becomes
	verifyBy int   // the round that ends the newest verification

	dirty    [2]int    // parts, by odd
	parity   part      // odd or 0: of parts that become dirty now
	round    int       // the newest
	active   bool      // it has not finished
	roundOf  time.Time // what was heard when it began
	finished int       // the newest round that has
	standing bool      // a round has finished since the connection came up
	waiters  []*waiter
}

func newEngine(c *Cache, path string) engine {
	return engine{
		cache: c, tree: tree{path: path, root: &node{}}, nodes: 1, errs: map[*node]failure{}, rearming: map[*request]struct{}{},
	}
}

func (e *engine) entry(n *node, path string) Entry {
	d := n.details()
	entry := Entry{Path: path, Data: n.data, Stat: zk.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: d.pzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version, Cversion: d.cversion,
		Aversion: d.aversion, EphemeralOwner: d.owner, DataLength: int32(len(n.data)), NumChildren: d.numChildren,
	}}
	if n.failed {
		entry.Err = e.errs[n].err()
	}
	return entry
}

// run follows the nodes in one session after the other.
func (c *Cache) run(ctx, patience context.Context) {
	for {
		s, err := c.client.Session(ctx)
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, zkrecipes.ErrClosed) {
				err = closedError{}
			}
			c.end(err)
			return
		}
		f := s.Follow(c.Path(), c.needs)
		over := c.follow(ctx, s, f)
		f.Stop() // before it releases: a cache that is closed at the same time does not leave its watches to this one
		if over {
			c.release(patience, s, f)
			return
		}
	}
}

// end notes why the engine ends, and wakes all callers.
func (c *Cache) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.engine
	if e.err == nil {
		e.err = err
	}
	if c.client.State() == session.Closed {
		e.err = zkrecipes.ErrClosed
	}
	e.standing, e.connected = false, false
	for _, w := range e.waiters {
		close(w.done)
	}
	e.waiters = nil
	c.tellReaders()
}

// follow follows the nodes within one session. It reports true if the engine is to end.
func (c *Cache) follow(ctx context.Context, s *session.Session, f *session.Feed) (over bool) {
	e := &c.engine
	c.mu.Lock()
	e.feed = f
	e.begin()
	c.mu.Unlock()
	recheck := time.NewTicker(c.config.recheck)
	defer recheck.Stop()
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	resting := true // until the timer fires
	for {
		news := f.Take()
		b, rests, err := c.handle(news)
		if b.Len() > 0 && !b.Send() { // without mu: to send may find that the connection is gone, and tell tracers of losses
			c.mu.Lock()
			e.connected = false // nothing was sent; when the connection is there again, begin finds what is to be sent
			c.mu.Unlock()
		}
		switch {
		case err != nil:
			c.end(err)
			return true
		case len(news) > 0:
			continue
		case rests && !resting: // however many events come meanwhile
			rest.Reset(restTime)
			resting = true
		}
		select {
		case <-f.Wake():
		case <-c.poke:
		case <-rest.C:
			c.mu.Lock()
			e.rest = false
			c.mu.Unlock()
			resting = false
		case <-recheck.C:
			c.mu.Lock()
			e.recheck()
			c.mu.Unlock()
		case <-s.Done():
			c.sessionOver(f)
			return false
		case <-ctx.Done():
			c.end(closedError{})
			return true
		}
	}
}

// handle handles news. It returns what is to be sent, whether the engine is to rest, and why it has ended.
func (c *Cache) handle(news []session.News) (b *session.Batch, rests bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.engine
	for _, n := range news {
		e.hear(n)
	}
	e.advance()
	b = e.batch()
	return b, e.rest, e.err
}

// sessionOver handles the last news of a session that has ended.
func (c *Cache) sessionOver(f *session.Feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.engine
	for _, n := range f.Take() {
		e.hear(n)
	}
	e.connected, e.standing = false, false
	c.tellReaders()
}

// restTime is a pause for a server that sheds load, or is behind.
const restTime = 10 * time.Millisecond

// begin makes all parts dirty: a connection is there, and no watch is. The parts that nothing is known to have happened to need only
// their watches.
func (e *engine) begin() {
	e.connected, e.standing, e.active = true, false, false
	e.epoch++
	since := e.zxid
	if len(e.bares) > 0 {
		since = min(since, e.since)
	}
	for r := range e.rearming {
		since = min(since, r.since)
	}
	clear(e.rearming)
	e.reads, e.bares, e.inflight, e.rest = nil, nil, 0, false
	e.dirty = [2]int{}
	for _, w := range e.waiters {
		w.asked = false
	}
	e.root.all(func(n *node) {
		for p, was := range n.parts {
			n.parts[p] = 0
			switch {
			case was&(stale|again) != 0, e.hasFailed(n, p), n == e.root && p == data && e.zxid == 0:
				e.spoil(n, p, stale, e.parity)
			case was&bare != 0, n.known && e.has(n, p), n == e.root && p == data:
				e.bare(n, p, since, e.parity)
			}
		}
	})
}

// hear handles news.
func (e *engine) hear(n session.News) {
	switch n.Kind {
	case session.Changed:
		e.changed(n)
	case session.Down:
		e.down(n.Heard)
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

// clean notes that nothing was dirty at a time.
func (e *engine) clean(at time.Time) {
	if e.standing && e.pending() == 0 {
		e.asOf.advance(at)
	}
}

func (e *engine) down(heard time.Time) {
	e.clean(heard)
	e.connected, e.standing = false, false
	e.cache.tellReaders()
}

func (e *engine) changed(event session.News) {
	e.clean(event.Heard)
	n := e.find(event.Path)
	if n == nil || !n.known && n.parts[data] == 0 && n != e.root {
		return
	}
	switch event.Event {
	case zk.EventNodeChildrenChanged:
		if n.known && e.has(n, list) {
			e.spoil(n, list, stale, e.parity)
		}
	case zk.EventNodeDeleted:
		if n.known && e.has(n, list) {
			e.spoil(n, list, stale, e.parity)
		}
		fallthrough
	default:
		e.spoil(n, data, stale, e.parity)
	}
}

// needs reports which watches of a path the cache has, or is asking for.
func (c *Cache) needs(path string) (ofData, ofList bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := &c.engine
	n := e.find(path)
	if n == nil {
		return false, false
	}
	needs := func(p int) bool {
		return n.parts[p]&asked != 0 || n == e.root && p == data || n.known && e.has(n, p) && !e.hasFailed(n, p)
	}
	return needs(data), needs(list)
}

// release takes the watches away, one node after the other.
func (c *Cache) release(ctx context.Context, s *session.Session, f *session.Feed) {
	e := &c.engine
	var nodes []*node
	e.root.all(func(n *node) {
		if n.known || n == e.root || (n.parts[data]|n.parts[list])&asked != 0 {
			nodes = append(nodes, n)
		}
	})
	e.epoch++ // what was asked for before does not matter any more
	e.inflight = 0
	window := 1 // a server that does not know the request hangs up
	for {
		for _, n := range f.Take() {
			r, ok := n.For.(*request)
			switch {
			case n.Kind != session.Answered || !ok || r.epoch != e.epoch:
			case n.Err != nil && n.Zxid == 0, errors.Is(n.Err, session.ErrUnimplemented):
				return // the connection is gone, or the server cannot do it
			case session.NotExecuted(n.Err):
				e.inflight--
				nodes = append(nodes, r.node)
			default:
				e.inflight--
				window = c.config.window
			}
		}
		b := f.Batch()
		for len(nodes) > 0 && e.inflight+b.Len() < window {
			b.RemoveWatches(e.pathOf(nodes[0]), &request{kind: removing, epoch: e.epoch, task: task{node: nodes[0]}})
			nodes = nodes[1:]
		}
		e.inflight += b.Len()
		if e.inflight == 0 || b.Len() > 0 && !b.Send() {
			return
		}
		select {
		case <-f.Wake():
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
