package session

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Prove waits until the session is proven alive for long enough that, in good health, the next proof comes in time. If it is
// not, Prove asks the leader, again and again until the proof is there.
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
		// A sync confirms only contacts that are old enough when it is sent.
		_ = Sleep(ctx, min(s.Timeout()/64, s.core.opts.lag(s.Timeout())/4)) // askLeader looks at ctx
	}
}

func (s *session) proven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.proof.validUntil()) > s.proof.enough()
}

// Freshen asks the leader for a proof if the present one ends soon, and does not wait for the answer. The answers to later
// requests come after it, so a caller that waits for one of those needs no proof of its own. An idle session sends a ping
// every third of the timeout; thanks to them one answer of the leader proves at least a quarter of the timeout.
//
// While one such request is on its way, another would prove little more, so a thousand waiters that wake together send one.
func (s *Session) Freshen() {
	s.mu.Lock()
	c, doubtful := s.connection, s.proof.doubtful()
	if s.lasts(s.proof.least/8) || s.freshening == c {
		s.mu.Unlock()
		return
	}
	s.lastSync, s.freshening = time.Now(), c
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freshening = nil
	}
	r := s.syncRequest("/", func(string, error) { done() })
	if doubtful {
		r = s.barrierRequest(func(transaction, error) { done() })
	}
	s.sendNow(s.ctx, nil, []request{r}) // if there is no connection, the next is another
}

// lasts reports whether the proof lasts until a contact made now can be proven, and for spare beyond that. Called with mu held.
func (s *session) lasts(spare time.Duration) bool {
	return time.Until(s.proof.validUntil()) > s.proof.lag+spare
}

// askLeader sends what prolongs the proof soonest: a barrier if the session was resumed and no write has confirmed that,
// else a sync.
func (s *Session) askLeader(ctx context.Context) error {
	s.mu.Lock()
	doubtful := s.proof.doubtful()
	s.mu.Unlock()
	if doubtful {
		return s.Barrier(ctx)
	}
	return s.Sync(ctx, "/")
}
