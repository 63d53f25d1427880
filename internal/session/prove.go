package session

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Prove waits until the session is proven alive, for so long that in good health the next proof comes in time. It asks the
// leader if that is not so, and again if what it says is no answer.
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

func (s *session) proven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lasts(s.proof.least / 16)
}

// Freshen asks for a proof if there is little left of the one there is, and does not wait for the answer. What is asked
// next is answered after it, so a caller that has that answer need not ask again: the pings of an idle session, every third
// of the timeout, let one answer of the leader prove at least a quarter of it.
func (s *Session) Freshen() {
	s.mu.Lock()
	fresh, doubtful := s.lasts(s.proof.least/8), s.proof.doubtful()
	if !fresh {
		s.lastSync = time.Now() // this is one
	}
	s.mu.Unlock()
	switch {
	case fresh:
	case doubtful:
		s.sendNow(nil, []request{s.barrierRequest(func(transaction, error) {})})
	default:
		s.sendNow(nil, []request{s.syncRequest("/", func(string, error) {})})
	}
}

// lasts reports whether the proof lasts until a contact made now can be proven, and for spare beyond that. Called with mu held.
func (s *session) lasts(spare time.Duration) bool {
	return time.Until(s.proof.validUntil()) > s.proof.lag+spare
}

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
