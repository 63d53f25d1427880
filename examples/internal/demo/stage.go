package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A story has short sessions, so that the others need not wait long for an actor that has crashed.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
)

// Stage is where a story plays: a server in this process, and actors. Each actor has its own connection, as another
// process would have.
type Stage struct {
	*Journal
	ctx     context.Context //nolint:containedctx // lives as long as the story
	server  *zktest.Server
	cast    map[string]*actor
	playing sync.WaitGroup
	changed chan struct{} // has a value if Changed was called since the last look
}

type actor struct {
	client *conn.Client
	leave  context.CancelFunc
}

// Play plays a story. The bound is a safety net. A story that is interrupted has not failed.
func Play(ctx context.Context, out io.Writer, legend string, bound time.Duration, story func(context.Context, *Stage) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &Stage{Journal: NewStory(out), ctx: ctx, server: server, cast: map[string]*actor{}, changed: make(chan struct{}, 1)}
	s.Explain(legend)
	defer s.end()
	if err := story(ctx, s); !errors.Is(context.Cause(ctx), context.Canceled) {
		return err
	}
	return nil
}

// Enter starts an actor.
func (s *Stage) Enter(id string, act func(context.Context, *conn.Client) error) error {
	client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
		conn.WithIdentity(id), conn.WithSessionTimeout(storySession),
		conn.WithLogger(slog.New(slog.DiscardHandler))) // the story says it
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(s.ctx)
	s.cast[id] = &actor{client, leave}
	s.playing.Go(func() {
		if err := act(ctx, client); err != nil {
			s.Say(id + " fails: " + err.Error())
		}
	})
	return nil
}

// Interrupt asks an actor to leave.
func (s *Stage) Interrupt(id string) { s.cast[id].leave() }

// Crash ends an actor without an end of its session: the server hears nothing more of it.
func (s *Stage) Crash(id string) {
	s.Mute(id)
	s.server.Refuse(zktest.Label(id))
	s.server.Cut(zktest.Label(id))
	s.cast[id].leave()
	_ = s.cast[id].client.Close() // never fails
}

// CutOff loses all that an actor and the server send to each other, until Rejoin.
func (s *Stage) CutOff(id string) { s.server.Stall(zktest.Label(id), zktest.Both) }

// Rejoin ends what CutOff did.
func (s *Stage) Rejoin(id string) { s.server.Heal(zktest.Label(id)) }

// Changed says that something which Perform may wait for has changed.
func (s *Stage) Changed() {
	select {
	case s.changed <- struct{}{}:
	default: // there is one already
	}
}

// Step is a part of a story: what the journal says, what happens, and which actors do the work then.
type Step struct {
	Say     string
	Do      func() error
	Working []string
}

// Perform takes one step after the other. A step lasts until its actors have divided the work, and half a second more.
func (s *Stage) Perform(steps []Step, divided func(working []string) bool) error {
	for _, step := range steps {
		s.Say(step.Say)
		if err := step.Do(); err != nil {
			return err
		}
		for !divided(step.Working) {
			select {
			case <-s.changed:
			case <-s.ctx.Done():
				return fmt.Errorf("the work is not divided among %v: %w", step.Working, context.Cause(s.ctx))
			}
		}
		if err := s.Pause(500 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Pause waits. It returns why the story ended, if it did.
func (s *Stage) Pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *Stage) end() {
	for _, a := range s.cast {
		a.leave()
	}
	s.playing.Wait()
	for _, a := range s.cast {
		_ = a.client.Close() // never fails
	}
}

// Do is a step that cannot fail.
func Do(act func(id string), id string) func() error {
	return func() error { act(id); return nil }
}
