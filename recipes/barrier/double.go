package barrier

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
)

// Double is a barrier that members enter together and leave together, in rounds of a fixed size. It is stateless: each
// call of [Double.Enter] is a separate member.
type Double struct {
	rounds *rounds
	path   string
}

// DoubleOption configures [NewDouble].
type DoubleOption func(*doubleConfig) error

type doubleConfig struct{ recipe.Config }

// WithData sets the data of the members, which operators can see; the default is the client's identity. If it is text,
// it is also the Name of a [zkrecipes.Participant]. It need not be unique.
func WithData(data []byte) DoubleOption { return recipe.Data[*doubleConfig](data) }

// WithTracerName sets the name by which tracers, and therefore metrics and traces, know the double barrier; by default
// it has no name. The name has at most 100 bytes and should come from a small set, because each name has its own
// metrics. It is not sent to ZooKeeper.
func WithTracerName(name string) DoubleOption { return recipe.TracerName[*doubleConfig](name) }

// NewDouble returns the double barrier of n members at path. All clients must use the same n. NewDouble sends nothing;
// the first Enter creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; n below 1; an invalid option.
func NewDouble(c *conn.Client, path string, n int, opts ...DoubleOption) (*Double, error) {
	client := (*client.Client)(c)
	cfg := doubleConfig{recipe.Defaults(client)}
	bad := recipe.Apply(&cfg, opts)
	rounds, err := newRounds(client, path, cfg.Config, n)
	if err := errors.Join(bad, err); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	return &Double{rounds, path}, nil
}

// Path returns the path of the double barrier.
func (d *Double) Path() string { return d.path }

// Round is one member's participation in a round: a hold that ends when the member leaves, or that is lost as any hold
// is.
type Round struct {
	*zkrecipes.Hold
	rounds *rounds
	span   span
}

// Number returns the number of the round, which is the same for its n members. Each round has a larger number than all
// earlier rounds on the same ensemble.
func (r *Round) Number() int64 { return r.span.zxid }

// Rank returns the place of the caller among the n members of its round: 0 to n-1, in order of arrival. Each member has
// its own rank, which lets members divide work.
func (r *Round) Rank() int { return r.span.rank }

// Member is a member of a round.
type Member struct {
	zkrecipes.Participant
	// Rank is what [Round.Rank] returns for the member.
	Rank int
}

// Members returns the members of the round whose nodes exist, in the order of their ranks. The list is no older than
// this call. The servers remove the node of a lost member when they end its session, and a member may leave as soon as
// the round has begun. To read all n, let each member stay until all have read, for instance with a second double
// barrier. A member that was asked to release is left out, because the request replaces its data.
//
// Errors: the cause of ctx, with what the call was waiting for; ErrClosed; otherwise the error of the server.
func (r *Round) Members(ctx context.Context) ([]Member, error) { return r.rounds.members(ctx, r.span) }

// Enter blocks until n members have arrived, and admits the caller as one of them. If the session ends in the meantime,
// the caller arrives again in the next session, as a new member. ctx bounds the wait, not the round.
//
// On error the caller is not in the round, and its node is deleted. Enter waits for that at most 100 ms longer than
// ctx, so that the next round does not count the node. If the server takes longer, the deletion continues in the
// background, and a round may still count the node. If ctx or the session ended just as the round began, the others are
// in the round, with a member that counts as having left at once.
//
// Errors: [*zkrecipes.WaitError] if ctx ends; ErrSequenceExhausted; ErrForeignContender; [zkrecipes.ErrTooLarge] if the
// data of n members is too large for one transaction; ErrClosed; otherwise the error of the server.
//
// Source: Curator's DistributedDoubleBarrier, whose nodes differ.
func (d *Double) Enter(ctx context.Context) (*Round, error) {
	h, span, err := d.rounds.enter(ctx)
	if err != nil {
		return nil, err
	}
	return &Round{h, d.rounds, span}, nil
}

// Leave ends the caller's part in the round, and blocks until all members of the round have left or were lost. If ctx
// has already ended, Leave still leaves, but does not wait. Call it again to resume waiting.
//
// Errors: a [*zkrecipes.LostError] if the hold was lost before, once all others have left; the cause of ctx; ErrClosed;
// otherwise the error of the server.
func (r *Round) Leave(ctx context.Context) error {
	lost := r.Release(ctx)
	if lost != nil && !errors.Is(lost, zkrecipes.ErrLost) {
		return lost
	}
	if err := r.rounds.awaitLeft(ctx, r.span); err != nil {
		return err
	}
	return lost
}
