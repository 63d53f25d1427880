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

// A Double is a barrier that members enter together and leave together, in rounds of a fixed size. It is stateless, and
// each call to [Double.Enter] is a separate member.
type Double struct {
	rounds *rounds
	path   string
}

// DoubleOption configures [NewDouble].
type DoubleOption func(*doubleConfig) error

type doubleConfig struct{ recipe.Config }

// WithData sets the data of the members' nodes, which operators can see. It defaults to the client's identity and
// doesn't have to be unique. If the data is text, it is also the [zkrecipes.Participant]'s Name.
func WithData(data []byte) DoubleOption { return recipe.Data[*doubleConfig](data) }

// WithTracerName sets the name that identifies the double barrier in metrics and traces. By default, the double barrier
// is unnamed. A name is at most 100 bytes long and isn't sent to ZooKeeper. Use only a few different names, because
// each one has its own metrics.
func WithTracerName(name string) DoubleOption { return recipe.TracerName[*doubleConfig](name) }

// NewDouble returns the double barrier for n members at path. All clients must use the same n. NewDouble doesn't send
// any requests; the first Enter creates missing parents.
//
// Errors: a nil client; a path that is relative, malformed or the root; an n below 1; or an invalid option.
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

// Path returns the double barrier's path.
func (d *Double) Path() string { return d.path }

// A Round is one member's participation in a round. It is a hold that ends when the member leaves, and can be lost like
// any other hold.
type Round struct {
	*zkrecipes.Hold
	rounds *rounds
	span   span
}

// Number returns the round's number, which is the same for all n members and larger than that of every earlier round on
// the same ensemble.
func (r *Round) Number() int64 { return r.span.zxid }

// Rank returns the caller's place among the n members of its round, from 0 to n-1 in order of arrival. Because no two
// members have the same rank, you can divide work by rank.
func (r *Round) Rank() int { return r.span.rank }

// A Member is a member of a round.
type Member struct {
	zkrecipes.Participant
	// Rank is what [Round.Rank] returns for the member.
	Rank int
}

// Members returns the members of the round whose nodes exist, in order of rank. The list is at least as recent as the
// call. It may have fewer than n entries, because a member may leave as soon as the round begins, and the servers
// remove a lost member's node when they end its session. To read all n, have each member stay until all have read the
// list, for instance with a second double barrier. A member that was asked to release is left out, because the request
// replaces its data.
//
// Errors: context.Cause(ctx), with what the call was waiting for; ErrClosed; or the server's error.
func (r *Round) Members(ctx context.Context) ([]Member, error) { return r.rounds.members(ctx, r.span) }

// Enter blocks until n members have arrived, and admits the caller as one of them. If the session ends while Enter is
// waiting, the caller arrives again in the next session, as a new member. ctx bounds the wait, not the round.
//
// If Enter fails, the caller isn't in the round, and its node is deleted. To keep the next round from counting the
// node, Enter waits up to 100 ms after ctx is done for the deletion. If the server takes longer, the deletion continues
// in the background, and a round may still count the node. If ctx is done or the session ends just as the round begins,
// the others' round includes a member that immediately counts as having left.
//
// Errors: [*zkrecipes.WaitError] if ctx is done first; ErrSequenceExhausted; ErrForeignContender;
// [zkrecipes.ErrTooLarge] if the data of n members is too large for one transaction; ErrClosed; or the server's error.
//
// Source: Curator's DistributedDoubleBarrier, whose nodes differ.
func (d *Double) Enter(ctx context.Context) (*Round, error) {
	h, span, err := d.rounds.enter(ctx)
	if err != nil {
		return nil, err
	}
	return &Round{h, d.rounds, span}, nil
}

// Leave leaves the round, and blocks until all other members have left or been lost. If ctx is already done, Leave
// still leaves, but doesn't wait. A context derived from the round is done as soon as the round is left, so pass
// another one. Call Leave again to resume waiting.
//
// Errors: a [*zkrecipes.LostError], once all others have left, if the caller's hold had already been lost;
// context.Cause(ctx); ErrClosed; or the server's error.
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
