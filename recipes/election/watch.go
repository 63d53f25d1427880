package election

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Leadership is a view: which candidate leads, or that there is none.
type Leadership struct {
	// Leader is the candidate at the head of the queue; empty if there is none.
	Leader zkrecipes.Participant
	// Exists says that there is a candidate.
	Exists bool
	zkrecipes.Freshness
}

// Leader returns the leader, as new as this call: the candidate at the head of the line, which leads, or is about to
// find out that it does.
//
// Errors: ErrNoLeader if there is no candidate; the cause of ctx; ErrClosed; otherwise what the server said.
func (e *Election) Leader(ctx context.Context) (zkrecipes.Participant, error) {
	if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {
		return zkrecipes.Participant{}, err
	}
	var leader zkrecipes.Participant
	var found bool
	err := e.queue.Client().InSession(ctx, "leader", e.queue.Path(), func(s *session.Session) (err error) {
		leader, found, _, err = e.queue.Head(ctx, s)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", e.queue.Path(), zkrecipes.ErrNoLeader)
	}
	return leader, err
}

// Watch tells who leads now, then every change, also of what a leader proclaims. Between two leaders it always tells
// that there is none, since leadership is never handed over without a moment in between.
//
// In three cases Watch tells the last view again at once, with Current false: the connection is lost, a reading takes an eighth
// of the session timeout, or no server has answered for a whole session timeout. When a server answers again, Watch tells a
// current view. A current view is the view of one server, which may be behind its leader: [Election.Leader] asks for the newest.
//
// Any number of observers may share a client: they share what is read, too. After a change a session reads the leader, or the next
// candidate that it knows of. Only if both have gone it lists the candidates.
//
// It ends, without an error, when ctx does or the caller stops; with one, the last it tells, when it cannot go on.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Leadership, error] {
	same := func(a, b Leadership) bool {
		return a.Exists == b.Exists && a.Leader.Token == b.Leader.Token && bytes.Equal(a.Leader.Data, b.Leader.Data)
	}
	return func(yield func(Leadership, error) bool) {
		head := func(ctx context.Context, s *session.Session) (Leadership, *session.Watch, error) {
			leader, found, w, err := e.queue.SharedHead(ctx, s)
			return Leadership{Leader: leader, Exists: found}, w, err
		}
		var last zkrecipes.Token // of the leader that was told last; 0 if none was
		for view, err := range client.Follow(ctx, e.queue.Client(), e.queue.Path(), head, same) {
			if err != nil {
				yield(Leadership{}, err)
				return
			}
			now := view.Value
			now.Freshness = view.Freshness
			between := last != 0 && now.Exists && last != now.Leader.Token
			last = now.Leader.Token
			if between && !yield(Leadership{Freshness: now.Freshness}, nil) || !yield(now, nil) {
				return
			}
		}
	}
}
