package hold

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// readAfter is how long a grant relies on the waiter's watch before it reads the node itself. A server withholds the
// event from a client that has lost permission to read the node, but answers a read of a node that is gone. Most
// critical sections under contention are shorter and cost no read, and 50 ms is short compared with a session timeout.
//
// Source: since 3.8.4 and 3.9.2 (CVE-2024-23944).
const readAfter = 50 * time.Millisecond

// watch watches the nodes of the grant: one may be deleted by hand, and its data may request a release. The first node
// may already have a watch. The others get theirs concurrently with the grant rather than before it, because a deletion
// or a request that precedes the watch is found by the read that sets it.
func (g *Grant) watch(first *session.Watch) {
	for i, path := range g.Node.Paths {
		if i == 0 && first != nil {
			g.watchLater(path, first)
			continue
		}
		g.Node.Session.Go(func(ctx context.Context) { g.watchPath(ctx, path, nil) })
	}
}

// watchLater calls watchPath once the watch on the node has fired, or after readAfter. A short hold does without the
// goroutine.
func (g *Grant) watchLater(path string, changed *session.Watch) {
	begin := func() { g.Node.Session.Go(func(ctx context.Context) { g.watchPath(ctx, path, changed) }) }
	g.mu.Lock()
	if g.detached {
		g.mu.Unlock()
		return
	}
	later := time.AfterFunc(readAfter, begin)
	g.later = later
	g.mu.Unlock()
	g.Node.Session.AfterFired(changed, func() {
		if later.Stop() { // otherwise it has begun, or the grant is detached
			begin()
		}
	})
}

// watchPath ends the grant when the server reports, by an event or an answer, that the node was deleted, even if there
// is a new one of the same name. It reads the node after any other event, and periodically without one. A deletion
// event is believed without a read: a false one would only end a hold.
func (g *Grant) watchPath(ctx context.Context, path string, changed *session.Watch) {
	s := g.Node.Session
	for {
		if g.isDetached() { // possibly before this goroutine first ran: a short hold costs no watch
			return
		}
		var data []byte
		var stat zk.Stat
		err := zk.ErrNoNode
		if !changed.SaysDeleted() {
			data, stat, changed, err = s.GetW(ctx, path)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != g.Node.Czxid:
			g.lose(g.lossWhenGone())
			return
		case ctx.Err() != nil, s.Err() != nil: // the session fails its calls a moment before it ends ctx
			return
		case err != nil:
			g.Node.Parent.Client.Logger().Warn(
				"zookeeper: cannot watch our own node, its deletion goes unnoticed until the next try",
				"path", path, "error", err)
		case string(data) == layout.RevokeRequest:
			g.revokeOnce()
		}
		_, _ = s.AwaitChange(ctx, s.RecheckAfter(), changed.Fired(), g.unwatched()) // the loop checks both
	}
}

// lossWhenGone returns the loss of a grant whose node is gone: LossNodeDeleted, or LossDeadline if the deadline has
// passed, since a process that was frozen may learn of the deletion before it checks the deadline.
func (g *Grant) lossWhenGone() *zkrecipes.LostError {
	now := time.Now()
	if until := g.Node.Session.ValidUntil(); !now.Before(until) {
		return &zkrecipes.LostError{Reason: zkrecipes.LossDeadline, At: until}
	}
	return &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, At: now}
}
