package demo

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A story has short sessions, so that the others do not wait long for an actor that has crashed.
const (
	storySession = 2 * time.Second
	storyTick    = 250 * time.Millisecond
)

// Stage is the setting of a story: a server in this process, and actors. Each actor has its own connection, as in a
// separate process.
type Stage struct {
	*Journal
	ctx     context.Context //nolint:containedctx // lives as long as the story
	server  *zktest.Server
	cast    map[string]*actor
	playing sync.WaitGroup
}

type actor struct {
	client *conn.Client
	leave  context.CancelFunc
}

// Play plays a story. The bound is a safety net. An interrupted story has not failed.
func Play(
	interrupted context.Context, out io.Writer, legend string, bound time.Duration,
	story func(context.Context, *Stage) error,
) error {
	ctx, cancel := context.WithTimeoutCause(interrupted, bound, errors.New("the story takes too long"))
	defer cancel()
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(storyTick))
	if err != nil {
		return err
	}
	defer server.Close()
	s := &Stage{Journal: NewStory(out), ctx: ctx, server: server, cast: map[string]*actor{}}
	s.Explain(legend)
	defer s.end()
	if err := story(ctx, s); interrupted.Err() == nil {
		return err
	}
	return nil
}

// Enter starts an actor.
func (s *Stage) Enter(id string, act func(context.Context, *conn.Client) error) error {
	client, err := conn.Dial(s.ctx, s.server.Addr(), conn.WithDialer(s.server.DialAs(id)),
		conn.WithIdentity(id), conn.WithSessionTimeout(storySession),
		conn.WithLogger(slog.New(slog.DiscardHandler))) // the story has what the client would log
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

// Crash ends an actor without ending its session: the actor simply stops sending anything to the server.
func (s *Stage) Crash(id string) {
	s.Mute(id)
	s.server.Refuse(zktest.Label(id))
	s.server.Cut(zktest.Label(id))
	s.cast[id].leave()
	_ = s.cast[id].client.Close() // never fails
}

// CutOff drops everything that an actor and the server send to each other, until Rejoin.
func (s *Stage) CutOff(id string) { s.server.Stall(zktest.Label(id), zktest.Both) }

// Rejoin undoes CutOff.
func (s *Stage) Rejoin(id string) { s.server.Heal(zktest.Label(id)) }

// Pause waits for d. It returns the reason if the story ends first.
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
