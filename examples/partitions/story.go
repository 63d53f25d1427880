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

// The story has short sessions, so that the others need not wait long for a member that has crashed. The bound is a safety net.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
	storyPause   = 500 * time.Millisecond
	storyBound   = time.Minute
)

const legend = `Members consume the %d partitions of a log, on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, member, what it does, partition, offset. Lines with -- say what is done to a member.
A plan says who has which partition. A partition has a lock, and a fence checks its token with each offset that is written.
`

// tell plays the life of some members on a server in this process. It fails if a partition is without a member, or a record was
// consumed twice or not at all.
func tell(ctx context.Context, c *config, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyBound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &story{
		config: c, ctx: ctx, server: server, journal: demo.NewStory(out), table: newTable(),
		cast: map[string]*actor{}, serving: map[string]string{}, changed: make(chan struct{}, 1),
	}
	s.journal.Explain(fmt.Sprintf(legend, c.partitions))
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
	table   *table
	cast    map[string]*actor
	playing sync.WaitGroup
	changed chan struct{} // has a value if a partition has come or gone since the last look

	mu      sync.Mutex
	serving map[string]string // who has begun to consume a partition last, and has not stopped
}

// actor is one member with a connection of its own.
type actor struct {
	client *conn.Client
	leave  context.CancelFunc
	frozen chan struct{} // closed when it wakes up; nil if it is not frozen; guarded by story.mu
}

func (s *story) play() error {
	steps := []struct {
		say     string
		do      func() error
		working []string
	}{
		{"three members join", func() error { return s.enter("anna", "ben", "cleo") }, []string{"anna", "ben", "cleo"}},
		{"dora joins: some partitions move to it, and the others go on", func() error { return s.enter("dora") }, []string{"anna", "ben", "cleo", "dora"}},
		{"ben is frozen: the others take its partitions when its session has expired", s.freeze("ben"), []string{"anna", "cleo", "dora"}},
		{"ben wakes up and writes at once: the fence refuses it. It joins again by itself", s.wake("ben"), []string{"anna", "ben", "cleo", "dora"}},
		{"cleo crashes: its partitions wait until its session has expired", s.crash("cleo"), []string{"anna", "ben", "dora"}},
		{"anna is interrupted: it hands over one partition after the other, and nobody waits", s.interrupt("anna"), []string{"ben", "dora"}},
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
	records, refused := s.table.sum()
	s.journal.Say(fmt.Sprintf("the end: %d records were consumed, each once. The fence has refused %d writes", records, refused))
	return nil
}

// enter starts members with connections of their own, as other processes would.
func (s *story) enter(ids ...string) error {
	for _, id := range ids {
		client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
			conn.WithIdentity(id), conn.WithSessionTimeout(storySession),
			conn.WithLogger(slog.New(slog.DiscardHandler))) // the story says it
		if err != nil {
			return err
		}
		ctx, leave := context.WithCancel(s.ctx)
		a := &actor{client: client, leave: leave}
		s.cast[id] = a
		m := &member{
			config: s.config, id: id, client: client, journal: s.journal, offsets: s.table,
			handle: func(ctx context.Context) error { return s.handle(ctx, a) },
			serves: func(partition string, is bool) { s.serves(id, partition, is) },
		}
		s.playing.Go(func() {
			if err := m.run(ctx); err != nil {
				s.journal.Say(id + " fails: " + err.Error())
			}
		})
	}
	return nil
}

// handle handles a record. A member that is frozen then writes when it wakes up, and does not look before.
func (s *story) handle(ctx context.Context, a *actor) error {
	err := s.config.handle(ctx)
	s.mu.Lock()
	frozen := a.frozen
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return err
}

func (s *story) serves(id, partition string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.serving[partition] = id
	} else if s.serving[partition] == id {
		delete(s.serving, partition)
	}
	select {
	case s.changed <- struct{}{}:
	default: // there is one already
	}
}

// await waits until the members have all partitions, and lets that last for a moment.
func (s *story) await(working []string) error {
	for !s.divided(working) {
		select {
		case <-s.changed:
		case <-s.ctx.Done():
			return fmt.Errorf("partitions that none of %v consumes: %w", working, context.Cause(s.ctx))
		}
	}
	select {
	case <-time.After(storyPause):
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// divided reports whether these members consume all partitions, and each at least one.
func (s *story) divided(working []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := map[string]int{}
	for _, id := range s.serving {
		has[id]++
	}
	all := 0
	for _, id := range working {
		if has[id] == 0 {
			return false
		}
		all += has[id]
	}
	return all == s.partitions
}

// freeze stops a process: it neither works nor talks to the server.
func (s *story) freeze(id string) func() error {
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cast[id].frozen = make(chan struct{})
		s.server.Stall(zktest.Label(id), zktest.Both)
		return nil
	}
}

func (s *story) wake(id string) func() error {
	return func() error {
		s.thaw(s.cast[id])
		s.server.Heal(zktest.Label(id))
		return nil
	}
}

func (s *story) thaw(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.frozen != nil {
		close(a.frozen)
		a.frozen = nil
	}
}

// crash ends a member without an end of its session: the server hears nothing more of it.
func (s *story) crash(id string) func() error {
	return func() error {
		s.journal.Mute(id)
		s.server.Refuse(zktest.Label(id))
		s.server.Cut(zktest.Label(id))
		s.cast[id].leave()
		return s.cast[id].client.Close()
	}
}

func (s *story) interrupt(id string) func() error {
	return func() error { s.cast[id].leave(); return nil }
}

func (s *story) end() {
	for id, a := range s.cast {
		s.journal.Mute(id) // the story is over
		s.thaw(a)
		a.leave()
	}
	s.playing.Wait()
	for _, a := range s.cast {
		_ = a.client.Close() // never fails
	}
}
