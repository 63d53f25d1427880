package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

type acquire func(context.Context) (*zkrecipes.Hold, error)

// kinds are the locks that at most one client may hold.
var kinds = []struct {
	name string
	make func(c *conn.Client, path string) (acquire, error)
}{
	{"mutex", func(c *conn.Client, path string) (acquire, error) {
		m, err := mutex.New(c, path)
		return m.Lock, err
	}},
	{"eager", func(c *conn.Client, path string) (acquire, error) {
		m, err := mutex.New(c, path, mutex.WithHandOver(zkrecipes.HandOverEager))
		return m.Lock, err
	}},
	{"election", func(c *conn.Client, path string) (acquire, error) {
		e, err := election.New(c, path)
		return func(ctx context.Context) (*zkrecipes.Hold, error) {
			term, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return term.Hold, nil
		}, err
	}},
	{"write", func(c *conn.Client, path string) (acquire, error) {
		l, err := rwlock.New(c, path)
		return l.Lock, err
	}},
	{"semaphore", func(c *conn.Client, path string) (acquire, error) {
		s, err := semaphore.New(c, path, 1)
		return func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 1) }, err
	}},
	{"kazoo", func(c *conn.Client, path string) (acquire, error) { // shared with kazoo's Lock
		m, err := mutex.New(c, path, mutex.WithKazoo())
		return m.Lock, err
	}},
}

// breath is how long a worker waits after a failed call.
const breath = 50 * time.Millisecond

// locks starts two workers on each lock, in different sessions.
func (r *run) locks(ctx context.Context) error {
	for i, k := range kinds {
		for n := range r.Locks {
			name := fmt.Sprintf("%s-%d", k.name, n)
			for side := range 2 {
				c := r.clients[(2*(i*r.Locks+n)+side)%len(r.clients)]
				take, err := k.make(c, Root+"/"+name+"/lock")
				if err != nil {
					return err
				}
				r.workers.Go(func() { r.work(ctx, Root+"/"+name+"/fenced", take, 0) })
			}
		}
	}
	return nil
}

// work runs one fenced section after another.
func (r *run) work(ctx context.Context, register string, take acquire, pause time.Duration) {
	for ctx.Err() == nil {
		h, err := take(ctx)
		if err != nil {
			r.failed(ctx)
			continue
		}
		r.section(register, h)
		if errors.Is(h.Release(ctx), zkrecipes.ErrLost) {
			r.ledger.count(func(t *Tally) { t.Losses++ })
		}
		if pause > 0 {
			wait(ctx, pause)
		}
	}
}

// section reads and writes the register. A holder that checks its hold and continues may still be late, and then the
// fence rejects it.
func (r *run) section(register string, h *zkrecipes.Hold) {
	r.ledger.enter(register, h)
	defer r.ledger.leave(register, h)
	base, err := r.ledger.read(register, h.Token())
	if err == nil && h.Err() == nil {
		_ = r.ledger.write(register, h.Token(), base, &r.ledger.tally.Sections) // rejected writes are counted
	}
}

// failed counts a call that failed before the end of the run, and waits.
func (r *run) failed(ctx context.Context) {
	if ctx.Err() == nil {
		r.ledger.count(func(t *Tally) { t.Failed++ })
	}
	wait(ctx, breath)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
