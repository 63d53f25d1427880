package znode

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// revokeRequest is what Curator's Revoker writes onto a contender.
const revokeRequest = "__REVOKE__"

// Revoke asks the contender at the head of the queue to release. It is no error if there is none.
func (q *Queue) Revoke(ctx context.Context) error {
	queue, err := q.contenders(ctx)
	if err != nil || len(queue) == 0 {
		return err
	}
	return RevokeAt(ctx, q.client, q.path+"/"+queue[0].Name)
}

// RevokeAt asks the contenders at paths to release. It is no error if one of them has left. A contender of kazoo cannot be
// asked, which is an error once the others have been asked.
//
// Source: Curator's Revoker.
func RevokeAt(ctx context.Context, client *session.Client, paths ...string) error {
	var errs []error
	for _, path := range paths {
		if _, ok := parse(path[strings.LastIndexByte(path, '/')+1:], []string{Lock, Latch, Read, Write, Lease}); !ok {
			errs = append(errs, &session.OpError{Op: "revoke", Path: path, Err: errors.New("a holder of kazoo cannot be asked to release")})
			continue
		}
		if _, err := client.Set(ctx, path, []byte(revokeRequest), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return errors.Join(errs...)
}

// watch watches the contenders of the grant: one may be deleted by hand, and the data may ask the holder to release. The
// watches are set beside the grant, not before it, because what they tell is news to the holder whenever it comes.
func (g *grant) watch() {
	for _, path := range g.node.paths {
		g.node.session.Go(func(ctx context.Context) { g.watchPath(ctx, path) })
	}
}

func (g *grant) watchPath(ctx context.Context, path string) {
	for {
		select {
		case <-g.over: // before this goroutine came to run: a short hold costs no watch
			return
		default:
		}
		data, _, changed, err := g.node.session.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			g.lose(&zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, At: time.Now()})
			return
		case ctx.Err() != nil:
			return
		case err != nil:
			g.queue.client.Logger().Warn("zookeeper: cannot watch our own node, its deletion goes unnoticed until the next try",
				"path", path, "error", err)
		case string(data) == revokeRequest:
			g.revokeOnce()
		}
		recheck := time.NewTimer(recheckAfter(g.node.session)) // an event may be lost
		select {
		case <-changed.Fired():
		case <-recheck.C:
		case <-g.over:
			recheck.Stop()
			return
		case <-ctx.Done():
			recheck.Stop()
			return
		}
		recheck.Stop()
	}
}
