package session

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Prove waits until the session is proven alive for long enough that the next proof comes in time if the servers are
// healthy. Until it is, Prove repeatedly asks the leader.
//
// Errors: the session's own, or the cause of ctx.
func (s *Session) Prove(ctx context.Context) error {
	for {
		if err := s.Err(); err != nil {
			return err
		}
		if s.EnoughForGrant() {
			return nil
		}
		if err := s.askLeader(ctx); err != nil && !wire.ServerFault(err) && !errors.Is(err, wire.ErrGarbled) {
			return err
		}
		if s.EnoughForGrant() {
			continue
		}
		_ = Sleep(ctx, s.ProvePause()) // askLeader checks ctx
	}
}

// askLeader sends whatever prolongs the proof soonest: a barrier if the session was resumed and that is not proven yet,
// otherwise a sync.
func (s *Session) askLeader(ctx context.Context) error {
	if s.ResumptionUnproven() {
		return s.Barrier(ctx)
	}
	return s.Sync(ctx, "/")
}
