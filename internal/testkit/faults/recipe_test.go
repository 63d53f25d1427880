package faults_test

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// path is the path of every recipe under test.
const path = "/app/queue"

// acquire acquires one hold.
type acquire func(ctx context.Context) (*zkrecipes.Hold, error)

// handle is a recipe opened on a client, reduced to what all recipes have in common.
type handle struct {
	take acquire
	try  acquire // nil if the recipe does not have one
}

// recipe is one recipe, with the numbers that a script needs. Two of its holds exclude each other, unless both are
// readers.
type recipe struct {
	name   string
	open   func(c *conn.Client, data []byte) (handle, error)
	rival  *recipe // the recipe that it excludes: itself, or the other side of a read-write lock
	parent string  // of the contenders that are granted
	base   string  // their names up to the number
	nodes  int     // contenders per hold
	weight int
	limit  int
	read   bool
	kazoo  bool // shared with kazoo: its parent is not a container, and a semaphore counts every child
}

// recipes lists all recipes. Semaphores appear as one lease of one, and as two of three leases in one transaction.
var recipes = func() []*recipe {
	write := &recipe{name: "write", open: openWrite, parent: path, base: "__WRIT__"}
	list := []*recipe{
		{name: "mutex", open: openMutex(), parent: path, base: "lock-"},
		write,
		{name: "read", open: openRead, parent: path, base: "__READ__", rival: write, read: true},
		{name: "semaphore-1-of-1", open: openSemaphore(1, 1), parent: path + "/leases", base: "lease-"},
		{
			name: "semaphore-2-of-3", open: openSemaphore(2, 3), parent: path + "/leases", base: "lease-", nodes: 2,
			weight: 2, limit: 3,
		},
		{name: "latch", open: openElection(election.Latch), parent: path, base: "latch-"},
		{name: "standback", open: openElection(election.Latch, election.WithStandBack()), parent: path, base: "latch-"},
		{name: "selector", open: openElection(election.Selector), parent: path, base: "lock-"},
		{name: "mutex-kazoo", open: openMutex(mutex.WithKazoo()), parent: path, base: "lock-", kazoo: true},
		{
			name: "semaphore-kazoo", open: openSemaphore(2, 3, semaphore.WithKazoo()), parent: path, base: "lease-",
			nodes: 2, weight: 2, limit: 3, kazoo: true,
		},
	}
	for _, r := range list {
		r.nodes, r.weight, r.limit = max(r.nodes, 1), max(r.weight, 1), max(r.limit, 1)
		if r.rival == nil {
			r.rival = r
		}
	}
	return list
}()

// sharing lists the recipes that allow several holds at a time, up to a limit.
var sharing = []*recipe{
	{
		name: "semaphore-1-of-3", open: openSemaphore(1, 3), parent: path + "/leases", base: "lease-", nodes: 1,
		weight: 1, limit: 3,
	},
}

func init() { sharing[0].rival = sharing[0] }

// countsAll reports whether every child of the parent is a lease.
func (r *recipe) countsAll() bool { return r.kazoo && r.base == "lease-" }

// exclusive reports whether no two holds can coexist, except two readers.
func (r *recipe) exclusive() bool { return 2*r.weight > r.limit }

func named(name string) *recipe {
	for _, r := range recipes {
		if r.name == name {
			return r
		}
	}
	panic("no recipe " + name)
}

func openMutex(opts ...mutex.Option) func(*conn.Client, []byte) (handle, error) {
	return func(c *conn.Client, data []byte) (handle, error) {
		m, err := mutex.New(c, path, append(opts, mutex.WithData(data))...)
		if err != nil {
			return handle{}, err
		}
		return handle{m.Lock, m.TryLock}, nil
	}
}

func openWrite(c *conn.Client, data []byte) (handle, error) {
	l, err := rwlock.New(c, path, rwlock.WithData(data))
	if err != nil {
		return handle{}, err
	}
	return handle{l.Lock, l.TryLock}, nil
}

func openRead(c *conn.Client, data []byte) (handle, error) {
	l, err := rwlock.New(c, path, rwlock.WithData(data))
	if err != nil {
		return handle{}, err
	}
	return handle{l.RLock, l.TryRLock}, nil
}

func openSemaphore(n, limit int, opts ...semaphore.Option) func(*conn.Client, []byte) (handle, error) {
	return func(c *conn.Client, data []byte) (handle, error) {
		s, err := semaphore.New(c, path, limit, append(opts, semaphore.WithData(data))...)
		if err != nil {
			return handle{}, err
		}
		return handle{
			func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, n) },
			func(ctx context.Context) (*zkrecipes.Hold, error) { return s.TryAcquire(ctx, n) },
		}, nil
	}
}

func openElection(layout election.Layout, opts ...election.Option) func(*conn.Client, []byte) (handle, error) {
	return func(c *conn.Client, data []byte) (handle, error) {
		e, err := election.New(c, path, append(opts, election.WithData(data), election.WithLayout(layout))...)
		if err != nil {
			return handle{}, err
		}
		return handle{take: func(ctx context.Context) (*zkrecipes.Hold, error) {
			t, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return t.Hold, nil
		}}, nil
	}
}

// call records that client is about to acquire.
func (r *recipe) call(rec *check.Recorder, client string) *check.Op {
	if r.read {
		return rec.CallRead(client)
	}
	return rec.Call(client, r.weight)
}

// creates matches client a's request that creates its contender.
func (r *recipe) creates() zktest.Match {
	return zktest.Match{
		From: zktest.Label("a"), Path: "^" + r.parent + "/_c_.*-" + r.base + "$",
		Where: func(q zktest.Request) bool {
			return q.Op == zktest.OpCreate || q.Op == zktest.OpMulti
		},
	}
}

// deletes matches client a's request that deletes its contender.
func (r *recipe) deletes() zktest.Match {
	return zktest.Match{From: zktest.Label("a"), Path: r.contender(), Where: func(q zktest.Request) bool {
		return q.Op == zktest.OpDelete || q.Op == zktest.OpMulti
	}}
}

// lists matches client a's requests that list the contenders.
func (r *recipe) lists() zktest.Match {
	return zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Path: "^" + r.parent + "$"}
}

// contender returns a regular expression for the paths of contenders.
func (r *recipe) contender() string { return "^" + r.parent + "/.*" + r.base + "[0-9]{10}$" }
