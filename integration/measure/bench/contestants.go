package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

const clients = 8

// section is one acquisition with its release. turn counts the sections of one client.
type section func(turn int) error

// repeat runs each section in a loop, in its own goroutine, until the time is up. It returns their combined rate.
func repeat(slice time.Duration, sections []section) (float64, error) {
	var all sync.WaitGroup
	done, errs := make([]int, len(sections)), make([]error, len(sections))
	start := time.Now()
	for i, s := range sections {
		all.Go(func() {
			for turn := i; time.Since(start) < slice && errs[i] == nil; turn++ {
				errs[i] = s(turn)
				done[i]++
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range done {
		total += n
	}
	return float64(total) / time.Since(start).Seconds(), errors.Join(errs...)
}

// looping returns a contestant that repeats what sectionOf returns for each of n clients.
func looping(name string, n int, sectionOf func(client int) section) contestant {
	sections := make([]section, n)
	for i := range sections {
		sections[i] = sectionOf(i)
	}
	return contestant{name, []int{os.Getpid()}, func(_ context.Context, slice time.Duration) (float64,
		error,
	) {
		return repeat(slice, sections)
	}}
}

func (f *field) rows(ctx context.Context) []row {
	rows := []row{
		f.uncontended(ctx, 1, 0.80, 1.4),
		f.uncontended(ctx, clients, 0.80, 1.4),
		{"read-write lock, 8 clients, one write in ten", []contestant{
			looping("zkrecipes", clients, func(i int) section { return f.rwlock(ctx, i) }),
			f.curator.contestant("rwlock", f.number, clients),
		}, []target{{against: "Curator", ratio: 1.2}}},
		{"semaphore of 4, 8 clients", []contestant{
			looping("zkrecipes", clients, func(i int) section { return f.semaphore(ctx, i) }),
			f.curator.contestant("semaphore", f.number, clients),
		}, []target{{against: "Curator", ratio: 1.3}}},
	}
	rows = append(rows,
		f.election(ctx, "zkrecipes"),
		f.election(ctx, "zkrecipes, auto", election.WithHandOver(zkrecipes.HandOverAuto)))
	rows = append(rows, f.counters(ctx)...)
	for _, sessions := range []int{1, 2} {
		name := map[int]string{
			1: "hand-over, 1,000 waiters in one session",
			2: "hand-over, 1,000 waiters in turns from two sessions",
		}[sessions]
		rows = append(rows, row{name, []contestant{
			f.handOver(1000, sessions), f.handOver(10, sessions),
		}, []target{{against: "10 waiters", ratio: 1.5, atMost: true}}})
	}
	return rows
}

func (f *field) uncontended(ctx context.Context, n int, ofBare, ofCurator float64) row {
	return row{fmt.Sprintf("uncontended Lock+Release, %d client(s)", n), []contestant{
		looping("zkrecipes", n, func(i int) section { return f.lock(ctx, i, fmt.Sprintf("/bench/ours/lock-of-%d", i)) }),
		looping("create+delete", n, f.createDelete),
		f.curator.contestant("lock", f.number, n),
		looping("go-zookeeper Lock", n, func(i int) section {
			return f.goZookeeperLock(i,
				fmt.Sprintf("/bench/gozk/lock-of-%d", i))
		}),
	}, []target{{against: "create+delete", ratio: ofBare}, {against: "Curator", ratio: ofCurator}}}
}

// election measures how often clients hand over the leadership. Each leads for no time, and campaigns again, as
// Curator's LeaderSelector does with autoRequeue. A LeaderLatch leads only once.
func (f *field) election(ctx context.Context, name string, opts ...election.Option) row {
	selector := f.curator.contestant("election", f.number, clients)
	selector.name = "Curator LeaderSelector"
	return row{fmt.Sprintf("election, %d sessions", clients), []contestant{
		looping(name, clients, func(i int) section { return f.term(ctx, i, opts...) }),
		selector,
	}, nil}
}

// patience is the deadline of each caller's context. Real callers have one, so the library must not be measured as if
// there were none.
const patience = time.Minute

// locked runs one section of a zkrecipes recipe.
func locked(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

func (f *field) lock(ctx context.Context, client int, path string, opts ...mutex.Option) section {
	m := must(mutex.New(f.ours[client], path, opts...))
	return func(int) error { return locked(ctx, m.Lock) }
}

func (f *field) rwlock(ctx context.Context, client int) section {
	l := must(rwlock.New(f.ours[client], "/bench/ours/rwlock"))
	return func(turn int) error {
		if turn%10 == 0 {
			return locked(ctx, l.Lock)
		}
		return locked(ctx, l.RLock)
	}
}

func (f *field) semaphore(ctx context.Context, client int) section {
	s := must(semaphore.New(f.ours[client], "/bench/ours/semaphore", 4))
	return func(int) error {
		return locked(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 1) })
	}
}

func (f *field) term(ctx context.Context, client int, opts ...election.Option) section {
	e := must(election.New(f.ours[client], "/bench/ours/election", opts...))
	return func(int) error {
		return locked(ctx, func(ctx context.Context) (*zkrecipes.Hold, error) {
			t, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return t.Hold, nil
		})
	}
}

// must panics on the error of a constructor, which fails only for bad arguments.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var open = zk.WorldACL(zk.PermAll)

func (f *field) goZookeeperLock(client int, path string) section {
	l := zk.NewLock(f.raw[client], path, open)
	return func(int) error {
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
}

func bareParent(client int) string { return fmt.Sprintf("/bench/bare/lock-of-%d", client) }

// bareName is as long as a contender's name, because the length costs time as well.
const bareName = "/_c_01234567-89ab-cdef-0123-456789abcdef-lock-"

func (f *field) createDelete(client int) section {
	return func(int) error {
		path, err := f.raw[client].Create(bareParent(client)+bareName, []byte("host/4711"), zk.FlagEphemeral|zk.FlagSequence,
			open)
		if err != nil {
			return err
		}
		return f.raw[client].Delete(path, -1)
	}
}
