package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The story has short sessions, so that nobody waits long for a dead leader, and a bound that it does not need.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
	storyPause   = 700 * time.Millisecond
	storyBound   = 20 * time.Second
)

// tell plays the life of an election on a server in this process: three candidates, a resignation, a crash, a partition
// and its end. What happens is on out; what is done to them is on standard error. It fails if two led at once.
func tell(ctx context.Context, path string, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyBound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &story{ctx: ctx, server: server, path: path, out: &shared{out: out}, cast: map[string]*actor{}, terms: make(chan term, 16)}
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
	out     *shared
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
	s.say("three candidates enter")
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
	s.say(second.leader + " crashes: its session must expire before another can lead")
	s.crash(second.leader)
	third, err := s.next()
	if err != nil {
		return err
	}
	s.say(third.leader + " is cut off: it must notice by itself, and first")
	s.server.Stall(zktest.Label(third.leader), zktest.Both)
	fourth, err := s.next()
	if err != nil {
		return err
	}
	if third.Err() == nil {
		return fmt.Errorf("%s does not know that it lost", third.leader)
	}
	s.say(third.leader + " is back on the network, and stands again")
	s.server.Heal(zktest.Label(third.leader))
	if err := s.pause(2 * storyPause); err != nil {
		return err
	}
	s.say(fourth.leader + " leaves: it hands over to " + third.leader)
	s.cast[fourth.leader].leave()
	if _, err := s.next(); err != nil {
		return err
	}
	s.say("the end")
	return nil
}

// enter lets a candidate run, as another process would.
func (s *story) enter(id string) error {
	client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
		conn.WithIdentity(id), conn.WithSessionTimeout(storySession))
	if err != nil {
		return err
	}
	contest, err := election.New(client, s.path, election.WithID(id))
	if err != nil {
		return errors.Join(err, client.Close())
	}
	ctx, leave := context.WithCancel(s.ctx)
	a := &actor{client: client, leave: leave, candidate: candidate{
		contest: contest, journal: &journal{id: id, log: demo.NewJournal(s.out.of(id))}, resign: make(chan struct{}),
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

// next waits for the next term, and lets it last for a moment.
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

// crash makes a candidate vanish without a word: nobody hears of it any more, and its server hears no goodbye.
func (s *story) crash(id string) {
	s.out.mute(id)
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

func (s *story) say(what string) { fmt.Fprintln(os.Stderr, "# "+what) }

// referee has every term so far, and looks at all of them when another begins.
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

// shared is one output for all candidates.
type shared struct {
	mu    sync.Mutex
	out   io.Writer
	muted map[string]bool
}

// of returns the output of one candidate.
func (s *shared) of(id string) io.Writer { return voice{s, id} }

func (s *shared) mute(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted == nil {
		s.muted = map[string]bool{}
	}
	s.muted[id] = true
}

type voice struct {
	*shared
	id string
}

// Write writes a line, unless its candidate has crashed.
func (v voice) Write(line []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.muted[v.id] {
		return len(line), nil
	}
	return v.out.Write(line)
}
