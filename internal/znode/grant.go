package znode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
)

// grant is a contender that has been granted, with the holds on it: one, or, when acquisitions are nested through the
// context, several. It ends with the last of them, or when it is lost.
type grant struct {
	*node
	queue   *Queue
	revoked chan struct{}
	over    chan struct{} // closed when the grant has ended

	revokeOnce func() // closes revoked

	mu       sync.Mutex
	holds    map[*share]func(*zkrecipes.LostError)
	ended    bool
	stopLoss func()
	release  func() // of the session's retention
}

// share is what one hold has of a grant.
type share struct {
	*grant
}

// grant makes the hold on n. It is the last gate: the session must be proven alive now, and the hold be on the
// session's list of those to end before the caller gets to see it.
func (q *Queue) grant(ctx context.Context, s *conn.Session, n *node, release func()) (*zkrecipes.Hold, error) {
	g := &grant{
		node: n, queue: q, release: release,
		revoked: make(chan struct{}), over: make(chan struct{}),
		holds: make(map[*share]func(*zkrecipes.LostError)),
	}
	g.revokeOnce = sync.OnceFunc(func() { close(g.revoked) })
	for {
		if err := s.Prove(ctx); err != nil {
			return nil, err
		}
		stop, ok := s.OnLoss(q.lossOnSuspend, g.lose)
		if ok {
			g.mu.Lock()
			g.stopLoss = stop
			g.mu.Unlock()
			break
		}
		if q.lossOnSuspend {
			// Proven, but not connected: the next answer comes when it is.
			if err := s.Sync(ctx, q.path); err != nil {
				return nil, err
			}
		}
	}
	h, ok := g.hold(ctx)
	if !ok || ctx.Err() != nil {
		g.drop() // and the caller's deferred removal follows
		if err := s.Err(); err != nil {
			return nil, err
		}
		if ctx.Err() == nil {
			return nil, errRequeue // lost between the proof and here
		}
		return nil, context.Cause(ctx)
	}
	for _, path := range n.paths {
		s.Go(func(ctx context.Context) { g.monitor(ctx, path) })
	}
	return h, nil
}

// heldKey finds, in a context, the grant that it descends from.
type heldKey struct{ path, kind string }

// hold returns another hold on the grant, unless that has ended.
func (g *grant) hold(ctx context.Context) (*zkrecipes.Hold, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	sh := &share{g}
	key := heldKey{g.queue.client.Abs(g.queue.path), g.Kind}
	h, end := zkrecipes.NewHold(context.WithValue(ctx, key, g), sh)
	g.holds[sh] = end
	return h, true
}

// Held returns another hold on the contender of the given kind that ctx descends from, if it is still held; it ends, and
// the contender goes, with the last of its holds. The second result tells a hold that has ended from none.
func (q *Queue) Held(ctx context.Context, kind string) (h *zkrecipes.Hold, descends bool) {
	g, ok := ctx.Value(heldKey{q.client.Abs(q.path), kind}).(*grant)
	if !ok || !g.queue.client.Same(q.client) || !time.Now().Before(g.ValidUntil()) {
		return nil, false
	}
	h, ok = g.hold(ctx)
	return h, ok
}

// HeldKey returns the sequence number of the contender of the given kind that ctx descends from, if it is still held.
func (q *Queue) HeldKey(ctx context.Context, kind string) (key string, held bool) {
	g, ok := ctx.Value(heldKey{q.client.Abs(q.path), kind}).(*grant)
	if !ok || !g.queue.client.Same(q.client) || !time.Now().Before(g.ValidUntil()) {
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Key, !g.ended
}

// Path is part of zkrecipes.Grant.
func (g *grant) Path() string { return g.path }

// Token is part of zkrecipes.Grant.
func (g *grant) Token() zkrecipes.Token { return g.token }

// ValidUntil is part of zkrecipes.Grant.
func (g *grant) ValidUntil() time.Time { return g.session.ValidUntil() }

// Revoked is part of zkrecipes.Grant.
func (g *grant) Revoked() <-chan struct{} { return g.revoked }

// Release is part of zkrecipes.Grant.
func (sh *share) Release(ctx context.Context) error {
	sh.mu.Lock()
	delete(sh.holds, sh)
	others := len(sh.holds) > 0
	sh.mu.Unlock()
	if others {
		return nil
	}
	sh.drop()
	if err := sh.remove().wait(ctx); err != nil {
		return &conn.OpError{Op: "release", Path: sh.path, Err: fmt.Errorf("the removal goes on: %w", err)}
	}
	return nil
}

// lose ends all holds as lost, then sees to the node: in a session that lives on, it would stand in everybody's way.
func (g *grant) lose(why *zkrecipes.LostError) {
	lost := *why
	lost.Path = g.path
	g.mu.Lock()
	var ends []func(*zkrecipes.LostError)
	for _, end := range g.holds {
		ends = append(ends, end)
	}
	clear(g.holds)
	g.mu.Unlock()
	for _, end := range ends {
		end(&lost)
	}
	g.drop()
	g.remove()
}

// drop ends the grant; its holds have ended.
func (g *grant) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ended = true
	close(g.over)
	if g.stopLoss != nil {
		g.stopLoss()
	}
	g.release()
}

// revokeRequest is what Curator's Revoker writes onto a node.
const revokeRequest = "__REVOKE__"

// monitor watches our own node: it may be deleted by hand, and somebody may ask for it back. It is armed beside the
// grant, not before it: what it tells is news to the holder whenever it comes.
func (g *grant) monitor(ctx context.Context, path string) {
	for {
		data, _, w, err := g.session.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			g.lose(&zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, At: time.Now()})
			return
		case err != nil:
			if ctx.Err() == nil {
				g.queue.client.Logger().Warn("zookeeper: cannot watch our own node, its deletion would go unnoticed",
					"path", path, "error", err)
			}
			return
		case string(data) == revokeRequest:
			g.revokeOnce()
		}
		timeout := g.session.Timeout()
		recheck := time.NewTimer(2*timeout + rand.N(timeout)) // an event may be lost
		select {
		case <-w.Fired():
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

// Check is part of zkrecipes.Grant: a read that is as new as the leader.
func (g *grant) Check(ctx context.Context) error {
	if err := g.session.Sync(ctx, g.path); err != nil {
		return err
	}
	for _, path := range g.paths {
		exists, stat, err := g.session.Exists(ctx, path)
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != int64(g.token) {
			return g.deleted()
		}
	}
	return nil
}

// deleted ends the grant for want of a node, and returns the error that says so.
func (g *grant) deleted() error {
	why := &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, Path: g.path, At: time.Now()}
	g.lose(why)
	return why
}

// Txn is part of zkrecipes.Grant. The contender's name is unique, so if it exists when the leader applies the ops, it is
// ours, and nobody else can have been granted what it stands for.
func (g *grant) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	var guarded []any
	for _, path := range g.paths {
		guarded = append(guarded, &zk.CheckVersionRequest{Path: path, Version: -1})
	}
	guarded = append(guarded, ops...)
	responses, err := g.session.Multi(ctx, guarded...)
	var failed *conn.OpError
	switch {
	case err == nil:
		return responses[len(g.paths):], nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return nil, err
	case errors.As(err, &failed) && slices.Contains(g.paths, failed.Path) && errors.Is(err, zk.ErrNoNode):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, g.deleted())
	case errors.Is(err, zkrecipes.ErrLost):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
	default:
		return nil, err
	}
}
