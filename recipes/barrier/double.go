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

// Double is a barrier that members enter together and leave together, in rounds of a fixed number. It has no state: each
// call of [Double.Enter] is a member of its own.
type Double struct {
	rounds *rounds
	path   string
}

// DoubleOption configures [NewDouble].
type DoubleOption func(*doubleConfig) error

type doubleConfig struct{ recipe.Config }

// WithData sets the data of the members, which operators see; default the client's identity. Text is the Name of a
// [zkrecipes.Participant], too. It need not be unique.
func WithData(data []byte) DoubleOption { return recipe.Data[*doubleConfig](data) }

// WithTracerName sets the name by which tracers, and so metrics and traces, know the double barrier; default none. It has at
// most 100 bytes, and should be one of few: each name has its own metrics. ZooKeeper does not see it.
func WithTracerName(name string) DoubleOption { return recipe.TracerName[*doubleConfig](name) }

// NewDouble returns the double barrier of n members at path. All clients must give the same n. NewDouble sends nothing; the
// first Enter creates missing parents.
//
// Errors: a nil client, a path that is relative, malformed or the root, n below 1, a bad option.
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

// Round is one member's part in a round: a hold that ends when the member leaves, or is lost as every hold is.
type Round struct {
	*zkrecipes.Hold
	rounds *rounds
	span   span
}

// Number returns the number of the round, which is the same for its n members. Each round has a larger one than all rounds
// before it on the same ensemble.
func (r *Round) Number() int64 { return r.span.zxid }

// Rank returns the place of the caller among the n members of its round: 0 to n-1, in the order in which they came. Each member has
// its own, so that they can share work.
func (r *Round) Rank() int { return r.span.rank }

// Member is a member of a round.
type Member struct {
	zkrecipes.Participant
	// Rank is what [Round.Rank] tells the member.
	Rank int
}

// Members returns the members of the round whose nodes are there, in the order of their ranks, as new as this call. The servers remove
// the node of a lost member when they end its session. A member may leave as soon as the round has begun. To read all n, let each stay until all have read: a second double barrier
// tells. A member that was asked to release is left out, because the request replaces its data.
//
// Errors: the cause of ctx, with what is in the way; ErrClosed; otherwise what the server said.
func (r *Round) Members(ctx context.Context) ([]Member, error) { return r.rounds.members(ctx, r.span) }

// Enter waits until n members are there, and lets the caller in as one of them. If the session ends meanwhile, the caller
// comes again in the next session, as a new member. ctx bounds the waiting, not the round.
//
// On error the caller is not in, and its node is deleted. Enter waits at most 100 ms longer than ctx for that, so that the next
// round does not count the node. If the server takes longer, the deletion goes on in the background, and a round may still count
// the node. If ctx or the session ended just as the round began, the others are in, and count a member that has left at once.
//
// Errors: [*zkrecipes.WaitError] when ctx ends; ErrSequenceExhausted; ErrForeignContender; [conn.ErrTooLarge] if the data of n
// members is too much for one transaction; ErrClosed; otherwise what the server said.
//
// Source: Curator's DistributedDoubleBarrier, whose nodes are others.
func (d *Double) Enter(ctx context.Context) (*Round, error) {
	h, span, err := d.rounds.enter(ctx)
	if err != nil {
		return nil, err
	}
	return &Round{h, d.rounds, span}, nil
}

// Leave ends the caller's part in the round, and waits until all members of the round have left, or were lost. With an
// ended ctx it leaves all the same and does not wait. It may be called again to go on waiting.
//
// Errors: a [*zkrecipes.LostError] if the hold was lost before, after all others have left; the cause of ctx; ErrClosed;
// otherwise what the server said.
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
