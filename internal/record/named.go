package record

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Named changes a node once. The transaction that changes it also creates a mark: a permanent node whose name
// represents this change. Any number of copies may therefore be sent, in any session: while the mark exists, none is
// applied.
type Named struct {
	Client *client.Client
	Path   string
	Mark   string
	// Next returns the transaction to apply to what the node holds, without the mark, or nil if there is nothing to do.
	// The transaction compares versions. Next is called again when another client has changed the node first, when nothing
	// shows whether a copy was applied, or when it returns nil or an error for a node that may be old.
	Next func(now session.Node) ([]zkrecipes.Op, error)
}

// Do makes the change, unless the mark already exists. If the mark exists, or there is nothing to do, it returns the
// node as found, which is at least as recent as the call. It reports whether a reply said that it made the change.
//
// Errors: Next's error; ErrUnknownOutcome if a copy may have been applied, or may still be; otherwise the server's
// error.
func (n Named) Do(ctx context.Context) (found session.Node, changed bool, err error) {
	var w write
	for recent := false; ; {
		marked, _, err := n.Client.Exists(ctx, n.Mark)
		var now session.Node
		if err == nil {
			now, err = Load(ctx, n.Client, n.Path) // after the mark, so that it is at least as new
		}
		if err != nil {
			return session.Node{}, false, outcome.Undecided(w.doubt, err)
		}
		var ops []zkrecipes.Op
		if !marked {
			ops, err = n.Next(now)
		}
		if len(ops) == 0 && !recent {
			// A lagging server, or a leader that was replaced, may not know yet that the nodes have been deleted.
			if recent, err = true, n.Client.Barrier(ctx, "update", n.Path); err == nil {
				continue
			}
		}
		if err != nil {
			return session.Node{}, false, outcome.Undecided(w.doubt, err)
		}
		if len(ops) == 0 {
			return now, false, nil
		}
		if again, err := n.send(ctx, &w, append(ops, zkrecipes.OpCreate(n.Mark, nil, 0))); !again {
			return session.Node{}, err == nil, err
		}
	}
}

// send sends a copy. again reports that the caller must read again.
func (n Named) send(ctx context.Context, w *write, ops []zkrecipes.Op) (again bool, err error) {
	sent := time.Now()
	_, err = Replacement{Client: n.Client, Path: n.Path}.multi(ctx, ops...)
	var failed *session.OpError
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return n.Client.State() != zkrecipes.Closed && w.retryAfterLostReply(ctx, err), err
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists):
		w.beaten(ctx, time.Since(sent))
		return true, nil
	case errors.Is(err, zk.ErrNoNode) && errors.As(err, &failed) && failed.Path == n.Path:
		missing := err // the node or its parent is gone
		if err = n.Client.InSession(ctx, "update", n.Path, func(s *session.Session) error {
			return w.remakes.MakeParents(ctx, s, n.Path, missing)
		}); err == nil {
			return true, nil
		}
	}
	return false, outcome.Undecided(w.doubt, err)
}
