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

// readAfter is how long a grant goes by the watch that the waiter has set, before it reads the node itself. A server that takes
// the client's right to read the node keeps the event back, so the node may have been deleted unheard. Most sections under
// contention are shorter, and cost no read. A server waits two ticks before it ends a session, so 50 ms is little beside that. Of
// a deletion by hand a holder learns by an event or an answer in any case.
//
// Source: since 3.8.4 and 3.9.2 (CVE-2024-23944).
const readAfter = 50 * time.Millisecond

// watch watches the node of the grant: one may be deleted by hand, and the data may request a release. The first node
// may have a watch already. The other watches are set beside the grant, not before it, because what they report is
// news to the holder whenever it comes.
func (g *Grant) watch(first *session.Watch) {
	for _, path := range g.Node.Paths {
		watch := first
		g.Node.Session.Go(func(ctx context.Context) { g.watchPath(ctx, path, watch) })
		first = nil
	}
}

// watchPath ends the grant when the server says that the node was deleted, by an event or an answer. After any other event, and
// now and then without one, it reads the node. The event of the deletion needs no reading: it can only end a hold.
func (g *Grant) watchPath(ctx context.Context, path string, changed *session.Watch) {
	s := g.Node.Session
	if changed != nil {
		_, _ = s.AwaitChange(ctx, readAfter, changed.Fired(), g.done) // the loop looks at both
	}
	for {
		select {
		case <-g.done: // also before this goroutine came to run: a short hold costs no watch
			return
		default:
		}
		var data []byte
		err := zk.ErrNoNode
		if !changed.SaysDeleted() {
			data, _, changed, err = s.GetW(ctx, path)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			g.lose(g.gone())
			return
		case ctx.Err() != nil, s.Err() != nil: // the session fails its calls a moment before it ends ctx
			return
		case err != nil:
			g.Node.Parent.Client.Logger().Warn("zookeeper: cannot watch our own node, its deletion goes unnoticed until the next try",
				"path", path, "error", err)
		case string(data) == layout.RevokeRequest:
			g.revokeOnce()
		}
		_, _ = s.AwaitChange(ctx, s.RecheckAfter(), changed.Fired(), g.done) // as above
	}
}

// gone is why the grant ends when its node is not there. A process that was frozen may hear of that before it looks at its deadline,
// which has passed before.
func (g *Grant) gone() *zkrecipes.LostError {
	now := time.Now()
	if until := g.Node.Session.ValidUntil(); !now.Before(until) {
		return &zkrecipes.LostError{Reason: zkrecipes.LossDeadline, At: until}
	}
	return &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, At: now}
}
