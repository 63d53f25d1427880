package hold

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// RevokeRequest is the data by which a holder is asked to release. Curator's Revoker writes them, too.
const RevokeRequest = "__REVOKE__"

// watch watches the node of the grant: one may be deleted by hand, and the data may ask the holder to release. The
// watches are set beside the grant, not before it, because what they tell is news to the holder whenever it comes.
func (g *Grant) watch() {
	for _, path := range g.Node.Paths {
		g.Node.Session.Go(func(ctx context.Context) { g.watchPath(ctx, path) })
	}
}

func (g *Grant) watchPath(ctx context.Context, path string) {
	for {
		select {
		case <-g.over: // also before this goroutine came to run: a short hold costs no watch
			return
		default:
		}
		data, _, changed, err := g.Node.Session.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			g.lose(&zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, At: time.Now()})
			return
		case ctx.Err() != nil, g.Node.Session.Err() != nil: // the session fails its calls a moment before it ends ctx
			return
		case err != nil:
			g.Node.Parent.Client.Logger().Warn("zookeeper: cannot watch our own node, its deletion goes unnoticed until the next try",
				"path", path, "error", err)
		case string(data) == RevokeRequest:
			g.revokeOnce()
		}
		_, _ = g.Node.Session.AwaitChange(ctx, g.Node.Session.RecheckAfter(), changed.Fired(), g.over) // the loop looks at both
	}
}
