package session

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Prove waits until the session is proven alive, asking the leader if it is not at the moment, and again if what it says is
// no answer.
//
// Errors: the session's own, or the cause of ctx.
func (s *Session) Prove(ctx context.Context) error {
	for {
		if err := s.Err(); err != nil {
			return err
		}
		if s.proven() {
			return nil
		}
		if err := s.askLeader(ctx); err != nil && !wire.ServerFault(err) && !errors.Is(err, wire.ErrGarbled) {
			return err
		}
		if s.proven() {
			continue
		}
		// One sync confirms only contacts that are old enough by the time it is sent.
		if err := sleep(ctx, min(s.Timeout()/64, s.core.opts.lag(s.Timeout())/4)); err != nil {
			return err
		}
	}
}

func (s *session) proven() bool { return time.Now().Before(s.ValidUntil()) }

// askLeader does what prolongs the proof soonest.
func (s *Session) askLeader(ctx context.Context) error {
	s.mu.Lock()
	doubtful := s.proof.doubtful()
	s.mu.Unlock()
	if doubtful {
		return s.Barrier(ctx)
	}
	return s.Sync(ctx, "/")
}
