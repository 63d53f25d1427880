package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Leadership is who leads, or that nobody does.
type Leadership struct {
	Leader zkrecipes.Participant
	None   bool
}

// Leader returns the leader, as new as this call: the candidate at the head of the line, which leads, or is about to
// find out that it does.
//
// Errors: ErrNoLeader if there is no candidate; the cause of ctx; ErrClosed; otherwise what the server said.
func (e *Election) Leader(ctx context.Context) (zkrecipes.Participant, error) {
	if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {
		return zkrecipes.Participant{}, err
	}
	for {
		s, err := e.queue.Client().Session(ctx)
		if err != nil {
			return zkrecipes.Participant{}, err
		}
		leader, found, _, err := e.queue.Head(ctx, s)
		switch {
		case err == nil && found:
			return leader, nil
		case err == nil:
			return zkrecipes.Participant{}, fmt.Errorf("%s: %w", e.queue.Path(), zkrecipes.ErrNoLeader)
		case ctx.Err() != nil || s.Err() == nil || errors.Is(s.Err(), zkrecipes.ErrClosed):
			return zkrecipes.Participant{}, err
		}
	}
}

// Observe tells who leads now, then every change, also of what a leader proclaims. Between two leaders it always tells
// that there is none, since leadership is never handed over without a moment in between. What it tells is the view of
// the server that the client is connected to, which may be behind; without a connection it tells nothing.
//
// It ends, without an error, when ctx does or the caller stops; with one, the last it tells, when it cannot go on.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		var told *Leadership
		tell := func(now Leadership) bool {
			switch {
			case told != nil && *told == now:
				return true
			case told != nil && !told.None && !now.None && told.Leader.Token != now.Leader.Token:
				if !yield(Leadership{None: true}, nil) {
					return false
				}
			}
			told = &now
			return yield(now, nil)
		}
		for {
			s, err := e.queue.Client().Session(ctx)
			if err == nil {
				err = e.observeIn(ctx, s, tell)
			}
			switch {
			case ctx.Err() != nil || errors.Is(err, errStopped):
				return
			case s != nil && s.Err() != nil && !errors.Is(s.Err(), zkrecipes.ErrClosed):
				// The next session goes on.
			default:
				yield(Leadership{None: true}, err)
				return
			}
		}
	}
}

var errStopped = errors.New("the caller has stopped")

// observeIn observes within one session.
func (e *Election) observeIn(ctx context.Context, s *session.Session, tell func(Leadership) bool) error {
	for {
		leader, found, w, err := e.queue.Head(ctx, s)
		if err != nil {
			return err
		}
		if !tell(Leadership{leader, !found}) {
			return errStopped
		}
		timeout := s.Timeout()
		recheck := time.NewTimer(2*timeout + rand.N(timeout)) // an event may be lost
		select {
		case <-w.Fired():
		case <-recheck.C:
		case <-s.Done():
			err = s.Err()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		recheck.Stop()
		if err != nil {
			return err
		}
	}
}
