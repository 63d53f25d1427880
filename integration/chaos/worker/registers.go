package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// An access is one way to use one register. It returns what it found.
type access struct {
	journal.Access
	do func(context.Context) (journal.Register, error)
}

// registers returns the turn of registers: nodes that are read and written by the client, by values, and by counters.
// No operator deletes them.
func (w *worker) registers() (turn, error) {
	draws := make([]func() access, 0, 12)
	for i := range 6 {
		draws = append(draws, w.node(fmt.Sprint("node-", i)))
	}
	for i := range 4 {
		key := fmt.Sprint("value-", i)
		v, err := value.New(w.client, w.path+"/"+key, value.Text())
		if err != nil {
			return nil, err
		}
		draws = append(draws, w.value(key, v))
	}
	for i := range 2 {
		key := fmt.Sprint("counter-", i)
		c, err := value.NewCounter(w.client, w.path+"/"+key, value.AtomicLong())
		if err != nil {
			return nil, err
		}
		draws = append(draws, w.counter(key, c))
	}
	return func(ctx context.Context) error {
		a := draws[w.rng.IntN(len(draws))]()
		op := w.journal.Access(a.Access, 0)
		defer w.orphaned(op)
		return w.accessed(ctx, op, a.do)
	}, nil
}

// accessed reports how an access ended.
func (w *worker) accessed(ctx context.Context, op *journal.Op,
	do func(context.Context) (journal.Register, error),
) error {
	found, err := do(ctx)
	switch {
	case err == nil:
		stuck := w.orders.holding()
		op.Tell(journal.Line{Event: check.Event{Kind: check.Granted}, Register: &found, Stuck: stuck != nil, Path: w.path})
		if stuck != nil {
			w.last(ctx, stuck)
		}
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		w.failed(ctx, op, err)
	default:
		l := journal.Line{Event: check.Event{Kind: check.Failed}, Reason: err.Error()}
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, value.ErrChanged) {
			l.Register = &journal.Register{} // a Swap that found another number
		}
		op.Tell(l)
	}
	return nil
}

// text returns data that no other write has.
func (w *worker) text() string {
	w.texts++
	return fmt.Sprintf("%s/%d", w.id, w.texts)
}

func state(data []byte, stat zk.Stat) journal.Register {
	return journal.Register{Number: int64(stat.Version), Data: string(data)}
}

// node draws accesses to a node by the client itself.
func (w *worker) node(key string) func() access {
	path := w.path + "/" + key
	known := int32(0) // its newest version that this client has seen
	get := func(ctx context.Context) (journal.Register, error) {
		data, stat, err := w.client.Get(ctx, path)
		if err == nil {
			known = stat.Version
		}
		return state(data, stat), err
	}
	write := func(data string, version int32) func(context.Context) (journal.Register, error) {
		return func(ctx context.Context) (journal.Register, error) {
			stat, err := w.client.Set(ctx, path, []byte(data), version)
			if err == nil {
				known = stat.Version
			}
			return state([]byte(data), stat), err
		}
	}
	return func() access {
		switch data := w.text(); w.rng.IntN(8) {
		case 0, 1:
			return access{journal.Access{Key: key, How: journal.Set, N: 1, Data: data}, write(data, -1)}
		case 2, 3:
			return access{journal.Access{Key: key, How: journal.Swap, N: 1, Data: data, Base: int64(known)}, write(data, known)}
		case 4, 5:
			return access{journal.Access{Key: key, How: journal.Look}, get}
		default:
			return access{journal.Access{Key: key, How: journal.Get}, func(ctx context.Context) (journal.Register, error) {
				if err := w.client.Sync(ctx, path); err != nil {
					return journal.Register{}, err
				}
				return get(ctx)
			}}
		}
	}
}

// value draws accesses to a value.
func (w *worker) value(key string, v *value.Value[string]) func() access {
	var known value.Version
	wrote := func(data, was string, version value.Version, err error) (journal.Register, error) {
		if err == nil {
			known = version
		}
		return journal.Register{Number: int64(version.Number), Data: data, Was: was}, err
	}
	return func() access {
		data, base := w.text(), known
		switch draw := w.rng.IntN(4); {
		case draw == 0:
			return access{
				journal.Access{Key: key, How: journal.Set, N: 1, Data: data},
				func(ctx context.Context) (journal.Register, error) {
					version, err := v.Set(ctx, data)
					return wrote(data, "", version, err)
				},
			}
		case draw == 1 && base.Exists():
			a := journal.Access{Key: key, How: journal.Swap, N: 1, Data: data, Base: int64(base.Number)}
			return access{a, func(ctx context.Context) (journal.Register, error) {
				version, err := v.CompareAndSet(ctx, base, data)
				return wrote(data, "", version, err)
			}}
		case draw == 2:
			return access{
				journal.Access{Key: key, How: journal.Update, N: 1, Data: data},
				func(ctx context.Context) (journal.Register, error) {
					was := ""
					_, version, err := v.Update(ctx, func(old string) (string, error) { was = old; return data, nil })
					return wrote(data, was, version, err)
				},
			}
		default:
			return access{journal.Access{Key: key, How: journal.Get}, func(ctx context.Context) (journal.Register, error) {
				data, version, err := v.Get(ctx)
				return wrote(data, "", version, err)
			}}
		}
	}
}

// counter draws additions to a counter.
func (w *worker) counter(key string, c *value.Counter) func() access {
	return func() access {
		n := 1 + w.rng.Int64N(1000)
		return access{journal.Access{Key: key, How: journal.Add, N: n}, func(ctx context.Context) (journal.Register, error) {
			if w.rng.IntN(2) == 0 {
				sum, err := c.Add(ctx, n)
				return journal.Register{Number: sum}, err
			}
			first, err := c.Next(ctx, n)
			return journal.Register{Number: first + n - 1}, err
		}}
	}
}

// guarded returns the turn of a register that a mutex guards: it is read and written under the hold, by a transaction
// of the hold. Once the section is over there is a second access, however the hold fared meanwhile.
func (w *worker) guarded() (turn, error) {
	const key = "guarded"
	m, err := mutex.New(w.client, w.path+"/lock")
	if err != nil {
		return nil, err
	}
	path := w.path + "/" + key
	return func(ctx context.Context) error {
		h, err := m.Lock(ctx)
		if err != nil {
			pause(ctx, w.length())
			return nil // the lock is not what is judged here
		}
		defer func() { _ = h.Release(ctx) }() // a lost hold needs no release
		for range 2 {
			data := w.text()
			op := w.journal.Access(journal.Access{Key: key, How: journal.Held, N: 1, Data: data}, h.Token())
			err := w.accessed(ctx, op, func(ctx context.Context) (journal.Register, error) {
				was, _, err := w.client.Get(ctx, path) // this client has seen the end of the previous hold, so no sync is needed
				if err != nil {
					return journal.Register{}, err
				}
				done, err := h.Txn(ctx, zkrecipes.OpSet(path, []byte(data), -1))
				if err != nil {
					return journal.Register{}, err
				}
				return journal.Register{Number: int64(done[0].Stat.Version), Data: data, Was: string(was)}, nil
			})
			if w.orphaned(op); err != nil {
				return err
			}
			pause(ctx, w.length())
		}
		return nil
	}, nil
}
