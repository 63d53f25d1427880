package survey

import (
	"context"
	"errors"
	"hash/maphash"
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
}

// Follow follows the subtree at root until the client is closed.
func Follow(client *conn.Client, root string) (*Live, error) {
	tree, err := cache.Tree(client, root)
	if err != nil {
		return nil, err
	}
	return &Live{client: client, tree: tree, root: root}, nil
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

// View returns the current queues, as far as the servers have reported them.
func (l *Live) View(ctx context.Context, stuck time.Duration) (View, error) {
	entries, state := l.tree.Snapshot()
	m := memory{names: listing{}, entries: make(map[string]*cache.Entry, len(entries))}
	for i := range entries {
		e := &entries[i]
		m.entries[e.Path] = e
		if e.Path != l.root {
			m.names[parent(e.Path)] = append(m.names[parent(e.Path)], base(e.Path))
		}
	}
	reader := &Reader{Client: m, Stuck: stuck, SkipForbidden: true, Ahead: l.Ahead()}
	queues, err := reader.Below(ctx, l.root)
	return View{state.Freshness, queues, reader.Forbidden(), m.versions(reader.Shards())}, err
}

// Ahead returns how far the servers' clock is ahead of the local one, see FollowClock.
func (l *Live) Ahead() time.Duration { return time.Duration(l.ahead.Load()) }

var seed = maphash.MakeSeed()

type version struct {
	node  string
	mzxid int64
}

// versions returns a number for each path, derived from the nodes at and below it.
func (m memory) versions(paths []string) map[string]uint64 {
	all := make(map[string]uint64, len(paths))
	for _, path := range paths {
		all[path] = 0
	}
	for node, e := range m.entries {
		for path := node; len(all) > 0; path = parent(path) {
			if _, has := all[path]; has {
				all[path] += maphash.Comparable(seed, version{node, e.Mzxid})
			}
			if path == "/" {
				break
			}
		}
	}
	return all
}

// memory is what a Live knows at one moment, as a Source.
type memory struct {
	names   listing
	entries map[string]*cache.Entry // by path
}

// Sync does nothing: the view reports how old it is.
func (m memory) Sync(context.Context, string) error { return nil }

// Children lists a node.
func (m memory) Children(_ context.Context, path string) ([]string, error) {
	switch e, there := m.entries[path]; {
	case !there:
		return nil, zk.ErrNoNode
	case errors.Is(e.Err, zk.ErrNoAuth):
		return nil, e.Err
	}
	return m.names[path], nil
}

// Get returns the data of a node. Those of a node that can no longer be read are from an earlier read.
func (m memory) Get(_ context.Context, path string) ([]byte, zk.Stat, error) {
	switch e, there := m.entries[path]; {
	case !there:
		return nil, zk.Stat{}, zk.ErrNoNode
	case e.Err != nil && e.Czxid == 0:
		return nil, zk.Stat{}, e.Err
	default:
		return e.Data, e.Stat, nil
	}
}
