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

const storyBound = 30 * time.Second

const legend = `Workers divide %d parts of work on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, worker, what it does. Lines with -- say what is done to a worker.
Each worker works out its share from the members of the group. If a worker comes or goes, only its own parts move.
`

// tell plays the life of a group on a server in this process: three workers, a crash, a new worker, and a network
// partition that heals. It returns an error if a part has no worker, or has two, once the workers have seen a change.
func tell(ctx context.Context, c *config, out io.Writer) error {
	return demo.Play(ctx, out, fmt.Sprintf(legend, c.parts), storyBound, func(_ context.Context, stage *demo.Stage) error {
		return (&story{Stage: stage, config: c, shares: map[string][]int{}}).play()
	})
}

type story struct {
	*demo.Stage
	*config

	mu     sync.Mutex
	shares map[string][]int // what each worker took last
}

func (s *story) play() error {
	err := s.Perform([]demo.Step{
		{Say: "three workers join", Do: s.enter("anna", "ben", "cleo"), Working: []string{"anna", "ben", "cleo"}},
		{
			Say: "ben crashes: the others take its parts when its session expires", Do: demo.Do(s.Crash, "ben"),
			Working: []string{"anna", "cleo"},
		},
		{
			Say: "dora joins: it takes some parts, and no other part moves", Do: s.enter("dora"),
			Working: []string{"anna", "cleo", "dora"},
		},
		{
			Say: "cleo is cut off from the network: it stops, since its view is outdated", Do: demo.Do(s.CutOff, "cleo"),
			Working: []string{"anna", "dora"},
		},
		{
			Say: "cleo is back on the network, and joins again by itself", Do: demo.Do(s.Rejoin, "cleo"),
			Working: []string{"anna", "cleo", "dora"},
		},
		{
			Say: "anna is interrupted: the others need not wait for its session", Do: demo.Do(s.Interrupt, "anna"),
			Working: []string{"cleo", "dora"},
		},
	}, s.divided)
	if err != nil {
		return err
	}
	s.Say("the end: after each change every part had one worker")
	return nil
}

func (s *story) enter(ids ...string) func() error {
	return func() error {
		for _, id := range ids {
			err := s.Enter(id, func(ctx context.Context, client *conn.Client) error {
				w := &worker{
					id: id, address: id + ":8080", path: s.path, parts: s.parts, verbose: s.verbose,
					client: client, journal: s.Journal, took: func(share []int) { s.took(id, share) },
				}
				return w.run(ctx)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *story) took(id string, share []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares[id] = share
	s.Changed()
}

// divided reports whether these workers have all parts, each part exactly once.
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
