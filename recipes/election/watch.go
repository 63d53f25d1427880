package election

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// Leadership is a view of which candidate leads, if any.
type Leadership struct {
	// Leader is the candidate at the head of the queue; it is the zero value if there is none.
	Leader zkrecipes.Participant
	// Exists reports whether there is a candidate.
	Exists bool
	zkrecipes.Freshness
}

// Leader returns the candidate at the head of the queue, which leads or is about to find out that it does. The result
// is at least as recent as the call.
//
// Errors: ErrNoLeader if there are no candidates; context.Cause(ctx); ErrClosed; or the server's error.
func (e *Election) Leader(ctx context.Context) (zkrecipes.Participant, error) {
	if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {
		return zkrecipes.Participant{}, err
	}
	leader, err := e.queue.First(ctx)
	if err == nil && leader.Path == "" {
		err = fmt.Errorf("%s: %w", e.queue.Path(), zkrecipes.ErrNoLeader)
	}
	return leader, err
}

// Watch yields the current leader, then every change, including changes to the leader's proclaimed data. Between two
// leaders it always yields a view without one, because leadership never passes from one to the next without a gap.
//
// In three cases, Watch immediately yields the last view again with Current set to false: when the connection is lost,
// when a read takes an eighth of the session timeout, and when no server has answered for a whole session timeout. Once
// a server answers again, it yields a current view. Even a current view reflects only what one server knows, and that
// server may lag behind ZooKeeper's leader; if you need the latest leader, call [Election.Leader].
//
// Each call reads independently: after a change it reads the leader or the next candidate it knows of, and lists the
// candidates only if both are gone. If many parts of a program observe the same election, call Watch once and
// distribute its views.
//
// The iteration ends as described in package [zkrecipes], under "Conventions".
func (e *Election) Watch(ctx context.Context) iter.Seq2[Leadership, error] {
	same := func(a, b Leadership) bool {
		return a.Exists == b.Exists && a.Leader.Token == b.Leader.Token && bytes.Equal(a.Leader.Data, b.Leader.Data)
	}
	return func(yield func(Leadership, error) bool) {
		var known znode.Line
		head := func(ctx context.Context, s *session.Session) (Leadership, *session.Watch, error) {
			leader, found, w, err := e.queue.Head(ctx, s, &known)
			return Leadership{Leader: leader, Exists: found}, w, err
		}
		var last zkrecipes.Token // of the leader that was yielded last; 0 if none was
		for view, err := range client.Follow(ctx, e.queue.Client(), e.queue.Path(), head, same) {
			if err != nil {
				yield(Leadership{}, err)
				return
			}
			now := view.Value
			now.Freshness = view.Freshness
			between := last != 0 && now.Exists && last != now.Leader.Token
			last = now.Leader.Token
			if between && !yield(Leadership{Freshness: now.Freshness}, nil) || ctx.Err() != nil || !yield(now, nil) {
				return
			}
		}
	}
}
