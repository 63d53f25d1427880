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
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The story has short sessions, so that the others need not wait long for a dead leader. The bound is a safety net.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
	storyPause   = 700 * time.Millisecond
	storyBound   = 20 * time.Second
)

const legend = `Three candidates stand for election on a ZooKeeper in this process. Their sessions time out after 2 s.
A line is: time since the start, candidate, what it does. Lines with -- say what is done to a candidate.
Each term of leadership has a token that is larger than all before. No two candidates lead at the same time.
`

// tell plays the life of an election on a server in this process: three candidates, a resignation, a crash, a partition
// and its end. It fails if two candidates led at once.
func tell(ctx context.Context, path string, verbose bool, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyBound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &story{
		ctx: ctx, server: server, path: path, verbose: verbose, journal: demo.NewStory(out),
		cast: map[string]*actor{}, terms: make(chan term, 16),
	}
	s.journal.Explain(legend)
	defer s.end()
	err = s.play()
	if context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		err = nil // interrupted
	}
	return errors.Join(err, s.referee.verdict())
}

type story struct {
	ctx     context.Context //nolint:containedctx // lives as long as the story
	server  *zktest.Server
	path    string
	verbose bool
	journal *demo.Journal
	cast    map[string]*actor
	terms   chan term
	referee referee
	playing sync.WaitGroup
}

// actor is one candidate with a connection of its own.
type actor struct {
	candidate
	client *conn.Client
	leave  context.CancelFunc
}

type term struct {
	leader string
	*election.Term
}

func (s *story) play() error {
	s.say("three candidates stand for election")
	for _, id := range []string{"anna", "ben", "cleo"} {
		if err := s.enter(id); err != nil {
			return err
		}
	}
	first, err := s.next()
	if err != nil {
		return err
	}
	s.say(first.leader + " is asked to resign")
	s.cast[first.leader].resign <- struct{}{}
	second, err := s.next()
	if err != nil {
		return err
	}
	s.say(second.leader + " crashes: the next leader must wait until its session expires")
	s.crash(second.leader)
	third, err := s.next()
	if err != nil {
		return err
	}
	s.say(third.leader + " is cut off from the network: it must stop leading before the next one starts")
	s.server.Stall(zktest.Label(third.leader), zktest.Both)
	fourth, err := s.next()
	if err != nil {
		return err
	}
	if third.Err() == nil {
		return fmt.Errorf("%s does not know that it lost", third.leader)
	}
	s.say(third.leader + " is back on the network and stands again")
	s.server.Heal(zktest.Label(third.leader))
	if err := s.pause(2 * storyPause); err != nil {
		return err
	}
	s.say(fourth.leader + " is interrupted: it hands over to " + third.leader)
	s.cast[fourth.leader].leave()
	if _, err := s.next(); err != nil {
		return err
	}
	s.say("the end: no two led at the same time")
	return nil
}

// enter starts a candidate with a connection of its own, as another process would.
func (s *story) enter(id string) error {
	client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
		conn.WithIdentity(id), conn.WithSessionTimeout(storySession),
		conn.WithLogger(slog.New(slog.DiscardHandler))) // the story says it
	if err != nil {
		return err
	}
	contest, err := election.New(client, s.path, election.WithData([]byte(id)))
	if err != nil {
		return errors.Join(err, client.Close())
	}
	ctx, leave := context.WithCancel(s.ctx)
	a := &actor{client: client, leave: leave, candidate: candidate{
		id: id, contest: contest, journal: s.journal, observes: s.verbose, resign: make(chan struct{}),
		elected: func(t *election.Term) {
			s.referee.elected(id, t)
			s.terms <- term{id, t}
		},
	}}
	s.cast[id] = a
	s.playing.Go(func() {
		if err := a.run(ctx); err != nil {
			s.say(id + " fails: " + err.Error())
		}
	})
	return nil
}

// next waits for the next term and lets it last for a moment.
func (s *story) next() (term, error) {
	select {
	case t := <-s.terms:
		return t, s.pause(storyPause)
	case <-s.ctx.Done():
		return term{}, context.Cause(s.ctx)
	}
}

func (s *story) pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// crash ends a candidate without an end of its session: the server hears nothing more of it.
func (s *story) crash(id string) {
	s.journal.Mute(id)
	s.server.Refuse(zktest.Label(id))
	s.server.Cut(zktest.Label(id))
	s.cast[id].leave()
	_ = s.cast[id].client.Close() // never fails
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

func (s *story) say(what string) { s.journal.Say(what) }

// referee knows every term so far, and checks at each new term that all of them have ended.
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
