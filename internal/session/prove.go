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
		_ = Sleep(ctx, s.provePause()) // askLeader looks at ctx
	}
}

func (s *session) proven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upkeep.Proven(time.Now())
}

func (s *session) provePause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upkeep.Pause()
}

// Freshen asks the leader for a proof if the present one ends soon, and does not wait for the answer. The answers to later
// requests come after it, so a caller that waits for one of those needs no proof of its own. An idle session sends a ping
// every third of the timeout; thanks to them one answer of the leader proves at least a quarter of the timeout.
//
// While one such request is on its way, another would prove little more, so a thousand waiters that wake together send one.
func (s *Session) Freshen() {
	s.mu.Lock()
	c, doubtful := s.connection, s.upkeep.Doubtful()
	if s.freshening == c || !s.upkeep.Freshen(time.Now()) {
		s.mu.Unlock()
		return
	}
	s.freshening = c
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

// askLeader sends what prolongs the proof soonest: a barrier if the session was resumed and no write has confirmed that,
// else a sync.
func (s *Session) askLeader(ctx context.Context) error {
	s.mu.Lock()
	doubtful := s.upkeep.Doubtful()
	s.mu.Unlock()
	if doubtful {
		return s.Barrier(ctx)
	}
	return s.Sync(ctx, "/")
}
