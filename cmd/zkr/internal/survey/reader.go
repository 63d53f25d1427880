// Package survey reads the queues of locks, semaphores and elections, and judges them: which contender holds, which
// ones wait, and what blocks them. Apart from [CompareClocks], it only reads.
//
// It knows the layouts of the recipes, which are those of Curator, and the layouts of kazoo.
package survey

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/layout"
)

// inFlight is how many requests a reader has in flight: enough to fill the connection, too few to hold up other
// clients.
const inFlight = 64

// Source is where nodes are read from: a *conn.Client, or the memory of a [Live].
type Source interface {
	Sync(ctx context.Context, path string) error
	Children(ctx context.Context, path string) ([]string, error)
	Get(ctx context.Context, path string) ([]byte, zk.Stat, error)
}

// Reader reads queues.
type Reader struct {
	Client Source
	Stuck  time.Duration // a first waiter that has waited this long yields a finding; 0 means never
	// Ahead is how far the servers' clock is ahead of the local one. Times of contenders are converted to local time.
	Ahead time.Duration
	// SkipForbidden makes Below leave out nodes below its root that the client may not read. Otherwise they are an error.
	SkipForbidden bool

	mu        sync.Mutex
	forbidden []string
	shards    []string
	asOf      time.Time
}

// AsOf returns the time of which everything that was read is at least as recent: when the first answer arrived, however
// long that took.
func (r *Reader) AsOf() time.Time { return r.asOf }

// sync makes what follows at least as recent as the time that it returns.
func (r *Reader) sync(ctx context.Context, path string) (time.Time, error) {
	if err := r.Client.Sync(ctx, path); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	if r.asOf.IsZero() {
		r.asOf = now
	}
	return now, nil
}

// Forbidden returns the nodes that were left out, sorted.
func (r *Reader) Forbidden() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.forbidden)
	return slices.Compact(slices.Clone(r.forbidden))
}

// Shards returns the paths with shards that Path and Below have encountered, sorted: those that have members, an
// election and a plan.
func (r *Reader) Shards() []string {
	slices.Sort(r.shards)
	return slices.Compact(r.shards)
}

// noteShards records the paths of a listing that have shards.
func (r *Reader) noteShards(tree listing) {
	for path, names := range tree {
		if slices.Contains(names, "members") && slices.Contains(names, "election") && slices.Contains(names, "plan") {
			r.shards = append(r.shards, path)
		}
	}
}

// skips reports whether to leave out a node because err means that the client may not read it. It records the node.
func (r *Reader) skips(skip bool, path string, err error) bool {
	if !skip || !errors.Is(err, zk.ErrNoAuth) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forbidden = append(r.forbidden, path)
	return true
}

// Path reads the queue at a path. A path without a node is a free lock.
func (r *Reader) Path(ctx context.Context, path string) (*Queue, error) {
	asOf, err := r.sync(ctx, path)
	if err != nil {
		return nil, err
	}
	tree, err := r.around(ctx, path)
	if err != nil {
		return nil, err
	}
	r.noteShards(tree)
	queues, err := r.queues(ctx, asOf, tree, []string{path}, false)
	if err != nil {
		return nil, err
	}
	return queues[0], nil
}

// Below reads all queues at and below root that have contenders, sorted by path. An empty path does not reveal its
// purpose, so free locks are left out. With SkipForbidden, a queue with an unreadable contender is left out entirely,
// because nothing certain is known about it.
func (r *Reader) Below(ctx context.Context, root string) ([]*Queue, error) {
	asOf, err := r.sync(ctx, root)
	if err != nil {
		return nil, err
	}
	tree, err := r.walk(ctx, root)
	if err != nil {
		return nil, err
	}
	r.noteShards(tree)
	var paths []string
	for path := range tree {
		if tree.isQueue(path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	queues, err := r.queues(ctx, asOf, tree, paths, r.SkipForbidden)
	forbidden := r.Forbidden()
	return slices.DeleteFunc(queues, func(q *Queue) bool {
		parts := []string{join(q.Path, layout.Leases), join(q.Path, layout.Door), q.Path + layout.KazooDoor}
		return q.unread || len(q.Contenders()) == 0 ||
			slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(forbidden, part) })
	}), err
}

// list lists nodes. Nodes that do not exist or are skipped get no entry.
func (r *Reader) list(ctx context.Context, tree listing, paths []string, skip bool) error {
	var mu sync.Mutex
	return each(ctx, paths, func(path string) error {
		names, err := r.Client.Children(ctx, path)
		if errors.Is(err, zk.ErrNoNode) || r.skips(skip, path, err) {
			return nil
		}
		if err == nil {
			mu.Lock()
			tree[path] = names
			mu.Unlock()
		}
		return err
	})
}

// around lists one path, and the parts of a semaphore next to and below it.
func (r *Reader) around(ctx context.Context, path string) (listing, error) {
	tree := listing{}
	wanted := []string{path}
	if path != "/" {
		wanted = append(wanted, path+layout.KazooDoor)
	}
	if err := r.list(ctx, tree, wanted, false); err != nil {
		return nil, err
	}
	var parts []string
	for _, part := range []string{layout.Leases, layout.Door} {
		if slices.Contains(tree[path], part) {
			parts = append(parts, join(path, part))
		}
	}
	return tree, r.list(ctx, tree, parts, false)
}

// walk lists all nodes at and below root, level by level, except for contenders, which have no children.
func (r *Reader) walk(ctx context.Context, root string) (listing, error) {
	tree := listing{}
	for level := []string{root}; len(level) > 0; {
		if err := r.list(ctx, tree, level, r.SkipForbidden && len(tree) > 0); err != nil {
			return nil, err
		}
		var next []string
		for _, path := range level {
			for _, name := range tree[path] {
				if child := join(path, name); child != "/zookeeper" && !isContender(name) && !tree.isLease(path, name) {
					next = append(next, child)
				}
			}
		}
		level = next
	}
	return tree, nil
}

// queues reads the contenders of queues whose names are in tree.
func (r *Reader) queues(
	ctx context.Context, asOf time.Time, tree listing, paths []string, skip bool,
) ([]*Queue, error) {
	queues := make([]*Queue, 0, len(paths))
	var parts []*part
	var nodes []*Contender
	for _, path := range paths {
		_, exists := tree[path]
		q := &Queue{Path: path, AsOf: asOf, Findings: []Finding{}, Exists: exists}
		queues = append(queues, q)
		own, hasLimit := tree.parts(q)
		if hasLimit {
			if err := r.limit(ctx, q, skip); err != nil {
				return nil, err
			}
		}
		for _, p := range own {
			nodes = append(nodes, p.list...)
		}
		parts = append(parts, own...)
	}
	if err := each(ctx, nodes, func(c *Contender) error { return r.read(ctx, c, skip) }); err != nil {
		return nil, err
	}
	sorted := map[*Queue]*[other + 1][]*Contender{} // by role
	for _, q := range queues {
		sorted[q] = new([other + 1][]*Contender)
	}
	for _, p := range parts {
		for _, c := range p.list {
			switch {
			case c.forbidden:
				p.queue.unread = true
			case c.Node == "": // it has left
			case c.named.Kind == "":
				p.queue.Foreign = append(p.queue.Foreign, c)
			default:
				sorted[p.queue][p.role] = append(sorted[p.queue][p.role], c)
			}
		}
	}
	now := time.Now()
	for _, q := range queues {
		q.arrange(sorted[q][lease], sorted[q][waiter], sorted[q][other])
		q.judge(now, r.Stuck)
	}
	return queues, nil
}

// read reads one contender. It clears the path of a contender that has left, or turns out not to be one.
func (r *Reader) read(ctx context.Context, c *Contender, skip bool) error {
	data, stat, err := r.Client.Get(ctx, c.Node)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && c.named.Kind == "" && stat.EphemeralOwner == 0:
		c.Node = ""
		return nil
	case r.skips(skip, c.Node, err):
		c.forbidden = true
		return nil
	case err != nil:
		return err
	}
	c.read(data, stat)
	c.Since = c.Since.Add(-r.Ahead)
	if !c.Asked.IsZero() {
		c.Asked = c.Asked.Add(-r.Ahead)
	}
	return nil
}

// limit reads the number of permits of a kazoo semaphore, which is the data of its node.
func (r *Reader) limit(ctx context.Context, q *Queue, skip bool) error {
	data, _, err := r.Client.Get(ctx, q.Path)
	q.unread = r.skips(skip, q.Path, err)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !q.unread {
		return err
	}
	q.limit, _ = strconv.Atoi(string(data)) // 0 if it is not a number
	return nil
}

// each calls do for all items, with up to inFlight concurrent calls, until the first error.
func each[T any](ctx context.Context, items []T, do func(T) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(inFlight, len(items)) {
		running.Go(func() {
			for i := next.Add(1); i <= int64(len(items)) && ctx.Err() == nil; i = next.Add(1) {
				if err := do(items[i-1]); err != nil {
					fail(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
