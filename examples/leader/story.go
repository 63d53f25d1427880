package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

const (
	storyPause = 700 * time.Millisecond
	storyBound = 20 * time.Second
)

const legend = `Three candidates stand for election on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, candidate, what it does. Lines with -- say what is done to a candidate.
Each term of leadership has a token that is larger than all before. No two candidates lead at the same time.
`

// tell plays the life of an election on a server in this process: three candidates, a resignation, a crash, and a
// network partition that heals. It returns an error if two candidates led at the same time.
func tell(ctx context.Context, path string, verbose bool, out io.Writer) error {
	var referee referee
	err := demo.Play(ctx, out, legend, storyBound, func(ctx context.Context, stage *demo.Stage) error {
		s := &story{
			Stage: stage, path: path, verbose: verbose, referee: &referee,
			resign: map[string]chan struct{}{}, terms: make(chan term, 16),
		}
		return s.play(ctx)
	})
	return errors.Join(err, referee.verdict())
}

type story struct {
	*demo.Stage
	path    string
	verbose bool
	resign  map[string]chan struct{} // of each candidate
	terms   chan term
	referee *referee
}

type term struct {
	leader string
	*election.Term
}

func (s *story) play(ctx context.Context) error {
	s.Say("three candidates stand for election")
	for _, id := range []string{"anna", "ben", "cleo"} {
		if err := s.enter(id); err != nil {
			return err
		}
	}
	first, err := s.next(ctx)
	if err != nil {
		return err
	}
	s.Say(first.leader + " is asked to resign")
	s.resign[first.leader] <- struct{}{}
	second, err := s.next(ctx)
	if err != nil {
		return err
	}
	s.Say(second.leader + " crashes: the next leader must wait until its session expires")
	s.Crash(second.leader)
	third, err := s.next(ctx)
	if err != nil {
		return err
	}
	s.Say(third.leader + " is cut off from the network: it must stop leading before the next one starts")
	s.CutOff(third.leader)
	fourth, err := s.next(ctx)
	if err != nil {
		return err
	}
	if third.Err() == nil {
		return fmt.Errorf("%s does not know that it lost", third.leader)
	}
	s.Say(third.leader + " is back on the network and stands again")
	s.Rejoin(third.leader)
	if err := s.Pause(2 * storyPause); err != nil {
		return err
	}
	s.Say(fourth.leader + " is interrupted: it hands over to " + third.leader)
	s.Interrupt(fourth.leader)
	if _, err := s.next(ctx); err != nil {
		return err
	}
	s.Say("the end: no two led at the same time")
	return nil
}

func (s *story) enter(id string) error {
	resign := make(chan struct{})
	s.resign[id] = resign
	return s.Enter(id, func(ctx context.Context, client *conn.Client) error {
		contest, err := election.New(client, s.path, election.WithData([]byte(id)))
		if err != nil {
			return err
		}
		c := candidate{
			id: id, contest: contest, journal: s.Journal, observes: s.verbose, resign: resign,
			elected: func(t *election.Term) {
				s.referee.elected(id, t)
				s.terms <- term{id, t}
			},
		}
		return c.run(ctx)
	})
}

// next waits for the next term and lets it last for a moment.
func (s *story) next(ctx context.Context) (term, error) {
	select {
	case t := <-s.terms:
		return t, s.Pause(storyPause)
	case <-ctx.Done():
		return term{}, context.Cause(ctx)
	}
}

// referee records every term, and checks at each new term that all earlier ones have ended.
type referee struct {
	mu    sync.Mutex
	terms []term
	err   error
}

func (r *referee) elected(id string, t *election.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range r.terms {
		if old.Err() == nil {
			r.err = errors.Join(r.err, fmt.Errorf("two leaders: %s with token %d, and %s with token %d",
				old.leader, old.Token(), id, t.Token()))
		}
	}
	r.terms = append(r.terms, term{id, t})
}

func (r *referee) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
