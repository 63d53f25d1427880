package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const storyBound = time.Minute

const legend = `Members consume the %d partitions of a log, on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, member, what it does, partition, offset. Lines with -- say what is done to a member.
A plan says who has which partition. A partition has a lock, and a fence checks its token with each offset that is written.
`

// tell plays the life of some members on a server in this process. It returns an error if a partition has no member, or
// if a record was consumed twice or not at all.
func tell(ctx context.Context, c *config, out io.Writer) error {
	return demo.Play(ctx, out, fmt.Sprintf(legend, c.partitions), storyBound,
		func(_ context.Context, stage *demo.Stage) error {
			s := &story{
				Stage: stage, config: c, table: newTable(), serving: map[string]string{},
				frozen: map[string]chan struct{}{},
			}
			defer s.end()
			return s.play()
		})
}

type story struct {
	*demo.Stage
	*config
	table *table

	mu      sync.Mutex
	serving map[string]string        // the member that last started to consume a partition, unless it has stopped
	frozen  map[string]chan struct{} // by frozen member; closed when it wakes up
}

func (s *story) play() error {
	act := func(do func(id string), id string) func() error {
		return func() error { do(id); return nil }
	}
	for _, step := range []struct {
		say     string
		do      func() error
		working []string // which members then divide the partitions
	}{
		{"three members join", s.enter("anna", "ben", "cleo"), []string{"anna", "ben", "cleo"}},
		{
			"dora joins: some partitions move to it, and the others continue", s.enter("dora"),
			[]string{"anna", "ben", "cleo", "dora"},
		},
		{
			"ben is frozen: the others take its partitions when its session has expired", act(s.freeze, "ben"),
			[]string{"anna", "cleo", "dora"},
		},
		{
			"ben wakes up and writes at once: the fence refuses it. It joins again by itself", act(s.wake, "ben"),
			[]string{"anna", "ben", "cleo", "dora"},
		},
		{
			"cleo crashes: its partitions wait until its session has expired", act(s.Crash, "cleo"),
			[]string{"anna", "ben", "dora"},
		},
		{
			"anna is interrupted: it hands over one partition after the other, and nobody waits",
			act(s.Interrupt, "anna"),
			[]string{"ben", "dora"},
		},
	} {
		s.Say(step.say)
		if err := step.do(); err != nil {
			return err
		}
		for !s.divided(step.working) {
			if err := s.Pause(10 * time.Millisecond); err != nil {
				return fmt.Errorf("the partitions are not divided among %v: %w", step.working, err)
			}
		}
		if err := s.Pause(500 * time.Millisecond); err != nil {
			return err
		}
	}
	records, refused := s.table.sum()
	s.Say(fmt.Sprintf("the end: %d records were consumed, each once. The fence has refused %d writes", records, refused))
	return nil
}

func (s *story) enter(ids ...string) func() error {
	return func() error {
		for _, id := range ids {
			err := s.Enter(id, func(ctx context.Context, client *conn.Client) error {
				m := &member{
					config: s.config, id: id, client: client, journal: s.Journal, offsets: s.table,
					handle: func(ctx context.Context) error { return s.handle(ctx, id) },
					serves: func(partition string, is bool) { s.serves(id, partition, is) },
				}
				return m.run(ctx)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// handle handles a record. If a member is frozen while doing so, it writes when it wakes up, without checking its lock
// first.
func (s *story) handle(ctx context.Context, id string) error {
	err := s.config.handle(ctx)
	s.mu.Lock()
	frozen := s.frozen[id]
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
}

// divided reports whether these members consume all partitions, and each of them at least one.
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

// freeze suspends a process: it neither works nor communicates with the server.
func (s *story) freeze(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen[id] = make(chan struct{})
	s.CutOff(id)
}

func (s *story) wake(id string) {
	s.thaw(id)
	s.Rejoin(id)
}

func (s *story) thaw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if frozen := s.frozen[id]; frozen != nil {
		close(frozen)
		delete(s.frozen, id)
	}
}

// end wakes up the frozen members. The story is over, so it also mutes all members.
func (s *story) end() {
	for _, id := range []string{"anna", "ben", "cleo", "dora"} {
		s.Mute(id)
		s.thaw(id)
	}
}
