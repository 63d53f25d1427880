package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// member is a member of the shards. Its holds are reported as those of separate clients: "shards-0.1/p007" is what
// shards-0.1 did with the shard p007. All functions share one connection to the resource.
type member struct {
	*worker
	updated chan string // the contender under which a shard was updated

	mu       sync.Mutex
	journals map[string]*journal.Writer // by shard
}

// The longest a membership lasts, and the longest pause between two updates of one shard.
const (
	membership  = 30 * time.Second
	updatePause = 2 * time.Second
)

// shards returns the turn of a member: it waits until one of its shards is updated. The worker joins and leaves all the
// time: by Leave, or by stopping with or without a grace. The process that replaces a killed one has its id.
func (w *worker) shards(ctx context.Context) (turn, error) {
	m := &member{worker: w, updated: make(chan string), journals: map[string]*journal.Writer{}}
	names := make([]string, w.limit)
	for i := range names {
		names[i] = fmt.Sprintf("p%03d", i)
	}
	w.beside.Go(func() {
		for rng := rand.New(rand.NewPCG(w.seed, 1)); ctx.Err() == nil; {
			w.orders.rested(ctx)
			if err := m.belong(ctx, rng, names); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "worker %s: %v\n", w.id, err)
				os.Exit(1)
			}
		}
	})
	return func(ctx context.Context) error {
		op := w.journal.Call(1, false)
		waiting, stop := w.orders.untilRest(ctx)
		defer stop()
		var path string
		select {
		case path = <-m.updated:
		case <-waiting.Done():
			w.failed(ctx, op, context.Cause(waiting))
			return nil
		}
		stuck := w.orders.holding()
		op.Tell(journal.Line{Event: check.Event{Kind: check.Granted}, Stuck: stuck != nil, Path: path})
		w.last(ctx, stuck)
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
		return nil
	}, nil
}

// belong is one membership. It ends after some time, unless the newest order is "hold", and when the order is "rest".
func (m *member) belong(ctx context.Context, rng *rand.Rand, names []string) error {
	id, _, _ := strings.Cut(m.id, ".")
	opts := []shard.Option{shard.WithID(id), shard.WithSettle(m.config.session/6, m.config.session)}
	leaves := rng.IntN(2) == 0
	if !leaves && rng.IntN(2) == 0 {
		opts = append(opts, shard.WithReturnGrace(m.config.session))
	}
	s, err := shard.New(m.client, m.path, opts...)
	if err != nil {
		return err
	}
	running, stop := m.orders.untilRest(ctx)
	defer stop()
	lasts := time.Duration(rng.Int64N(int64(membership)))
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer stop()
	go func() {
		defer close(ended)
		defer stop()
		for pause(running, lasts); running.Err() == nil; {
			if stuck := m.orders.holding(); stuck == nil {
				break
			} else {
				<-released(running, stuck, 0)
			}
		}
		if leaves {
			_ = s.Leave(running) // an error means that it has stopped otherwise
		}
	}()
	if err := s.Run(running, shard.List(names...), m.serve); err != nil && running.Err() == nil {
		return err
	}
	return nil
}

// serve keeps updating a shard behind a fence, for the last time when asked to stop.
func (m *member) serve(ctx context.Context, s *shard.Shard) error {
	op := m.writer(s.Name).Call(1, false)
	op.Tell(journal.Line{
		Event: check.Event{Kind: check.Granted, Token: s.Token()},
		Until: journal.At(s.ValidUntil()), Path: s.Path(),
	})
	told := make(chan struct{})
	// At once: the function may be waiting for the resource behind those of a hundred other shards.
	stop := context.AfterFunc(s.Context(), func() {
		defer close(told)
		if err := s.Err(); errors.Is(err, zkrecipes.ErrLost) {
			tellLoss(op, err)
		}
	})
	defer func() {
		if !stop() {
			<-told
		}
		op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
	}()
	for n := 0; ctx.Err() == nil; n++ {
		version, err := m.read(s)
		if err != nil {
			return m.refused(err)
		}
		pause(ctx, rand.N(updatePause))
		if err := m.add(s, version, fmt.Sprintf("%s@%d#%d", m.id, s.Token(), n)); err != nil {
			return m.refused(err)
		}
		op.Tell(journal.Line{Event: check.Event{Kind: journal.Used}})
		select {
		case m.updated <- s.Path():
		default:
		}
	}
	return nil
}

// refused accepts a rejection by the fence. Any other error of the resource is a mistake in the tests.
func (m *member) refused(err error) error {
	if errors.Is(err, fence.ErrStale) {
		return nil
	}
	return err
}

func (m *member) set(s *shard.Shard) string { return m.sets + "/" + s.Name + "/" + resource.Fenced }

func (m *member) read(s *shard.Shard) (version int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resource.Read(m.set(s), s.Token())
}

func (m *member) add(s *shard.Shard, base int, element string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resource.Add(m.set(s), s.Token(), base, element)
}

func (m *member) writer(shard string) *journal.Writer {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.journals[shard]
	if w == nil {
		w = journal.NewWriter(os.Stdout, m.id+"/"+shard)
		m.journals[shard] = w
	}
	return w
}
