package survey

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

// View is a snapshot of all queues below a path.
type View struct {
	zkrecipes.Freshness
	Queues []*Queue
	// Forbidden are the nodes that were left out because this client may not read them.
	Forbidden []string
	// Shards maps each path that has shards to a number that changes whenever a node at or below the path does.
	Shards map[string]uint64
}

// Live follows all queues below a path. It requests only what has changed.
type Live struct {
	client *conn.Client
	tree   *cache.Cache
	root   string
	ahead  atomic.Int64 // see FollowClock

	mu     sync.Mutex
	names  listing
	mzxids map[string]int64
	closed map[string]error   // nodes that the ACLs forbid to read, with the error of the servers
	known  map[string]reading // of contenders, by path
}

// reading is the state of a node when it was read.
type reading struct {
	data []byte
	stat zk.Stat
}

// Follow follows the subtree at root until the client is closed.
func Follow(client *conn.Client, root string) (*Live, error) {
	tree, err := cache.Tree(client, root)
	if err != nil {
		return nil, err
	}
	return &Live{client: client, tree: tree, root: root, known: map[string]reading{}}, nil
}

// Changed calls tell after each change, until ctx ends or the subtree can no longer be followed.
func (l *Live) Changed(ctx context.Context, tell func()) error {
	for _, err := range l.tree.Watch(ctx) {
		if err != nil {
			return err
		}
		tell()
	}
	return context.Cause(ctx)
}

// FollowClock compares the servers' clock with the local one every ten minutes until ctx ends, so that ages are right.
// If the client may not create a node, ages are not corrected.
func (l *Live) FollowClock(ctx context.Context) {
	every := time.NewTicker(10 * time.Minute)
	defer every.Stop()
	for ctx.Err() == nil {
		if clock, err := CompareClocks(ctx, l.client); err == nil {
			l.ahead.Store(int64(clock.Certain()))
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

// View returns the current queues, as far as the servers have reported them. If the connection is lost while it reads,
// it returns an error at once.
func (l *Live) View(ctx context.Context, stuck time.Duration) (View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	entries, state := l.tree.Snapshot()
	l.names, l.mzxids, l.closed = listing{}, make(map[string]int64, len(entries)), map[string]error{}
	for _, e := range entries {
		if errors.Is(e.Err, zk.ErrNoAuth) {
			l.closed[e.Path] = e.Err
		}
		l.mzxids[e.Path] = e.Mzxid
		if e.Path != l.root {
			l.names[parent(e.Path)] = append(l.names[parent(e.Path)], base(e.Path))
		}
		if _, listed := l.names[e.Path]; !listed && !isContender(base(e.Path)) {
			l.names[e.Path] = nil // exists, without children
		}
	}
	for path := range l.known {
		if _, there := l.mzxids[path]; !there {
			delete(l.known, path)
		}
	}
	if state.Current {
		watching.Go(func() {
			for state := range l.client.States(ctx) {
				if state != zkrecipes.Connected {
					cancel()
				}
			}
		})
	}
	reader := &Reader{
		Client: &memory{l, &sync.Mutex{}, state.Current}, Stuck: stuck, SkipForbidden: true, Ahead: l.Ahead(),
	}
	queues, err := reader.Below(ctx, l.root)
	return View{state.Freshness, queues, reader.Forbidden(), l.versions(reader.Shards())}, err
}

// Ahead returns how far the servers' clock is ahead of the local one, see FollowClock.
func (l *Live) Ahead() time.Duration { return time.Duration(l.ahead.Load()) }

var seed = maphash.MakeSeed()

type version struct {
	node  string
	mzxid int64
}

// versions returns a number for each path, derived from the nodes at and below it.
func (l *Live) versions(paths []string) map[string]uint64 {
	all := make(map[string]uint64, len(paths))
	for _, path := range paths {
		all[path] = 0
	}
	for node, mzxid := range l.mzxids {
		for path := node; len(all) > 0; path = parent(path) {
			if _, has := all[path]; has {
				all[path] += maphash.Comparable(seed, version{node, mzxid})
			}
			if path == "/" {
				break
			}
		}
	}
	return all
}

// memory is what a Live knows, as a Source.
type memory struct {
	*Live
	reading   *sync.Mutex // guards known
	connected bool
}

// Sync does nothing: the view reports how old it is.
func (m *memory) Sync(context.Context, string) error { return nil }

// Children lists a node from memory.
func (m *memory) Children(_ context.Context, path string) ([]string, error) {
	if err := m.closed[path]; err != nil {
		return nil, err
	}
	names, there := m.names[path]
	if !there {
		return nil, zk.ErrNoNode
	}
	return names, nil
}

// Get reads a node that is new or was set. Without a connection it returns what it knows.
func (m *memory) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	m.reading.Lock()
	r, read := m.known[path]
	m.reading.Unlock()
	if read && (r.stat.Mzxid == m.mzxids[path] || !m.connected) {
		return r.data, r.stat, nil
	}
	if !m.connected {
		return nil, zk.Stat{}, zk.ErrNoNode
	}
	data, stat, err := m.client.Get(ctx, path)
	if err == nil {
		m.reading.Lock()
		m.known[path] = reading{data, stat}
		m.reading.Unlock()
	}
	return data, stat, err
}
