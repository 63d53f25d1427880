package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The story has short sessions, so that the others need not wait long for a worker that has crashed. The bound is a safety net.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
	storyPause   = 500 * time.Millisecond
	storyBound   = 30 * time.Second
)

const legend = `Workers divide %d parts of work on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, worker, what it does. Lines with -- say what is done to a worker.
Each worker works out its share from the members of the group. If a worker comes or goes, only its own parts move.
`

// tell plays the life of a group on a server in this process: three workers, a crash, a new worker, a partition and its end.
// It fails if a part is without a worker, or has two, once the workers have seen a change.
func tell(ctx context.Context, c *config, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyBound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &story{
		config: c, ctx: ctx, server: server, journal: demo.NewStory(out),
		cast: map[string]*actor{}, shares: map[string][]int{}, changed: make(chan struct{}, 1),
	}
	s.journal.Explain(fmt.Sprintf(legend, c.parts))
	defer s.end()
	err = s.play()
	if errors.Is(context.Cause(ctx), context.Canceled) {
		err = nil // interrupted
	}
	return err
}

type story struct {
	*config
	ctx     context.Context //nolint:containedctx // lives as long as the story
	server  *zktest.Server
	journal *demo.Journal
	cast    map[string]*actor
	playing sync.WaitGroup
	changed chan struct{} // has a value if a share was taken since the last look

	mu     sync.Mutex
	shares map[string][]int // what each worker took last
}

// actor is one worker with a connection of its own.
type actor struct {
	client *conn.Client
	leave  context.CancelFunc
}

func (s *story) play() error {
	steps := []struct {
		say     string
		do      func() error
		working []string
	}{
		{"three workers join", func() error { return s.enter("anna", "ben", "cleo") }, []string{"anna", "ben", "cleo"}},
		{"ben crashes: the others take its parts when its session expires", s.crash("ben"), []string{"anna", "cleo"}},
		{"dora joins: it takes some parts, and no other part moves", func() error { return s.enter("dora") }, []string{"anna", "cleo", "dora"}},
		{"cleo is cut off from the network: it stops, since its view is outdated", s.stall("cleo"), []string{"anna", "dora"}},
		{"cleo is back on the network, and joins again by itself", s.heal("cleo"), []string{"anna", "cleo", "dora"}},
		{"anna is interrupted: the others need not wait for its session", s.interrupt("anna"), []string{"cleo", "dora"}},
	}
	for _, step := range steps {
		s.journal.Say(step.say)
		if err := step.do(); err != nil {
			return err
		}
		if err := s.await(step.working); err != nil {
			return err
		}
	}
	s.journal.Say("the end: after each change every part had one worker")
	return nil
}

// enter starts workers with connections of their own, as other processes would.
func (s *story) enter(ids ...string) error {
	for _, id := range ids {
		client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
			conn.WithIdentity(id), conn.WithSessionTimeout(storySession),
			conn.WithLogger(slog.New(slog.DiscardHandler))) // the story says it
		if err != nil {
			return err
		}
		ctx, leave := context.WithCancel(s.ctx)
		s.cast[id] = &actor{client: client, leave: leave}
		w := &worker{
			id: id, address: id + ":8080", path: s.path, parts: s.parts, verbose: s.verbose,
			client: client, journal: s.journal, took: func(share []int) { s.took(id, share) },
		}
		s.playing.Go(func() {
			if err := w.run(ctx); err != nil {
				s.journal.Say(id + " fails: " + err.Error())
			}
		})
	}
	return nil
}

func (s *story) took(id string, share []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares[id] = share
	select {
	case s.changed <- struct{}{}:
	default: // there is one already
	}
}

// await waits until the workers have all parts, each part once, and lets that last for a moment.
func (s *story) await(working []string) error {
	for !s.divided(working) {
		select {
		case <-s.changed:
		case <-s.ctx.Done():
			return fmt.Errorf("parts that not exactly one of %v does: %w", working, context.Cause(s.ctx))
		}
	}
	select {
	case <-time.After(storyPause):
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *story) divided(working []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	workers := make([]int, s.parts)
	for _, id := range working {
		for _, part := range s.shares[id] {
			workers[part]++
		}
	}
	for _, n := range workers {
		if n != 1 {
			return false
		}
	}
	return true
}

// crash ends a worker without an end of its session: the server hears nothing more of it.
func (s *story) crash(id string) func() error {
	return func() error {
		s.journal.Mute(id)
		s.server.Refuse(zktest.Label(id))
		s.server.Cut(zktest.Label(id))
		s.cast[id].leave()
		return s.cast[id].client.Close()
	}
}

func (s *story) stall(id string) func() error {
	return func() error { s.server.Stall(zktest.Label(id), zktest.Both); return nil }
}

func (s *story) heal(id string) func() error {
	return func() error { s.server.Heal(zktest.Label(id)); return nil }
}

func (s *story) interrupt(id string) func() error {
	return func() error { s.cast[id].leave(); return nil }
}

func (s *story) end() {
	for _, a := range s.cast {
		a.leave()
	}
	s.playing.Wait()
	for _, a := range s.cast {
		_ = a.client.Close() // never fails
	}
}
