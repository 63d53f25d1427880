package znode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// grant is a node that has been granted, with the holds on it: one, or several if acquisitions are nested through the
// context. It ends with the last of them, or when it is lost.
type grant struct {
	node    *node
	queue   *Queue
	token   zkrecipes.Token
	revoked chan struct{}
	over    chan struct{} // closed when the grant has ended

	revokeOnce func() // closes revoked
	since      time.Time
	logged     sync.Once // that it was lost

	mu       sync.Mutex
	holds    map[*share]func(*zkrecipes.LostError)
	ended    bool
	lost     *zkrecipes.LostError // why it ended; nil if it was released
	traced   *tracedHold          // nil unless a tracer knows of it
	stopLoss func()
	release  func() // ends the session's retention
}

// share is what one hold has of a grant. The queue that it came through may be that of another client, made by Sub, which
// has other names for the same paths.
type share struct {
	grant   *grant
	through *Queue
}

// local returns a path of the node as the client of the share sees it.
func (sh *share) local(path string) string {
	return sh.through.path + strings.TrimPrefix(path, sh.grant.queue.path)
}

// grant makes the hold. It is the last gate: the session must be proven alive now, and its loss callback must be set before
// the caller sees the hold.
func (w *waiter) grant(token zkrecipes.Token) (*zkrecipes.Hold, error) {
	g := &grant{
		node: w.node, queue: w.queue, release: w.session.Retain(), token: token,
		revoked: make(chan struct{}), over: make(chan struct{}), since: time.Now(),
		holds: make(map[*share]func(*zkrecipes.LostError)),
	}
	g.revokeOnce = sync.OnceFunc(func() { close(g.revoked) })
	if err := w.endOnLoss(g); err != nil {
		g.drop(nil)
		return nil, err
	}
	h, ok := g.hold(w.attempt.hold(w.ctx, w.queue, g), w.queue)
	if !ok || w.ctx.Err() != nil {
		g.drop(nil) // and the caller removes the node
		g.traceEnd()
		if err := w.session.Err(); err != nil {
			return nil, err
		}
		if w.ctx.Err() == nil {
			return nil, errRequeue // lost between the proof and here
		}
		return nil, context.Cause(w.ctx)
	}
	w.granted = true
	w.release() // the grant has a retention of its own
	g.watch()
	return h, nil
}

// endOnLoss sets the callback that ends the grant with its session.
func (w *waiter) endOnLoss(g *grant) error {
	for {
		if err := w.session.Prove(w.ctx); err != nil {
			return err
		}
		stop, ok := w.session.OnLoss(w.queue.lossOnSuspend, g.lose)
		if ok {
			g.mu.Lock()
			g.stopLoss = stop
			g.mu.Unlock()
			return nil
		}
		if w.queue.lossOnSuspend {
			// Proven, but not connected. The next answer comes when it is.
			if err := w.session.Sync(w.ctx, w.queue.path); err != nil {
				return err
			}
		}
	}
}

// hold returns another hold on the grant, unless that has ended.
func (g *grant) hold(ctx context.Context, through *Queue) (*zkrecipes.Hold, bool) {
	key := heldKey{g.queue.client.Abs(g.queue.path), g.node.first().Kind}
	outer, _ := ctx.Value(key).(*held) // without mu: a context that is asked may find its own hold lapsed, and release it
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	sh := &share{grant: g, through: through}
	h, end := zkrecipes.NewHold(context.WithValue(ctx, key, &held{grant: g, outer: outer}), sh)
	g.holds[sh] = end
	return h, true
}

// lose ends all holds as lost, and then removes the node: in a session that lives on, it would be in the way of others.
// When lose returns the holds have ended, also if another goroutine was about to end them.
func (g *grant) lose(why *zkrecipes.LostError) {
	holds := g.drop(why)
	for sh, end := range holds {
		lost := *why
		lost.Path = sh.Path()
		end(&lost)
	}
	if len(holds) > 0 {
		g.logLoss(why)
	}
	g.traceEnd()
	g.node.remove()
}

// drop ends the grant, and returns what ends the holds that are left on it.
func (g *grant) drop(why *zkrecipes.LostError) map[*share]func(*zkrecipes.LostError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finish(why)
	return maps.Clone(g.holds)
}

// finish is called with mu held. After it no hold is given out.
func (g *grant) finish(why *zkrecipes.LostError) {
	if g.ended {
		return
	}
	g.ended, g.lost = true, why
	close(g.over)
	if g.stopLoss != nil {
		g.stopLoss()
	}
	g.release()
}

// Path is part of zkrecipes.Grant.
func (sh *share) Path() string { return sh.local(sh.grant.node.paths[0]) }

// Token is part of zkrecipes.Grant.
func (sh *share) Token() zkrecipes.Token { return sh.grant.token }

// ValidUntil is part of zkrecipes.Grant.
func (sh *share) ValidUntil() time.Time { return sh.grant.node.session.ValidUntil() }

// OnExpiring is part of zkrecipes.Grant.
func (sh *share) OnExpiring(lead time.Duration, f func()) (stop func()) {
	return sh.grant.node.session.OnExpiring(lead, f)
}

// Revoked is part of zkrecipes.Grant.
func (sh *share) Revoked() <-chan struct{} { return sh.grant.revoked }

// Release is part of zkrecipes.Grant.
func (sh *share) Release(ctx context.Context) error {
	why := sh.lapsed(ctx)
	if why != nil {
		sh.grant.logLoss(why)
	}
	if sh.letGo(why) {
		return nil
	}
	sh.grant.traceEnd()
	n := sh.grant.node
	n.remove()
	// A context that descends from the hold has ended with it, which is no error.
	if err := n.waitRemoved(ctx); err != nil && !errors.Is(err, zkrecipes.ErrReleased) {
		return &session.OpError{Op: "release", Path: sh.Path(), Err: fmt.Errorf("the removal goes on: %w", err)}
	}
	return nil
}

// lapsed returns the loss behind a release: a hold that finds that its deadline has passed releases its share with its own
// context, whose cause says so.
func (sh *share) lapsed(ctx context.Context) *zkrecipes.LostError {
	cause := context.Cause(ctx)
	if cause == nil {
		return nil
	}
	var why *zkrecipes.LostError
	if errors.As(cause, &why) && why.Path == sh.Path() {
		return why
	}
	return nil
}

// logLoss logs that the grant was lost, once. To close the client is the owner's own doing, and no reason to warn.
func (g *grant) logLoss(why *zkrecipes.LostError) {
	write := g.queue.client.Logger().Warn
	if why.Reason == zkrecipes.LossClosed {
		write = g.queue.client.Logger().Info
	}
	g.logged.Do(func() {
		attrs := []any{
			"path", g.node.paths[0], "token", g.token, "reason", why.Reason.String(),
			"held", why.At.Sub(g.since).Round(time.Millisecond), "session", fmt.Sprintf("0x%x", g.node.session.ID()),
		}
		if why.Err != nil {
			attrs = append(attrs, "error", why.Err)
		}
		write("zookeeper: hold lost", attrs...)
	})
}

// letGo takes the share off its grant, and ends the grant if it was the last. It reports whether other holds are left. Both
// are one step: a hold given out in between would be on a node that is being removed.
func (sh *share) letGo(why *zkrecipes.LostError) (held bool) {
	g := sh.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.holds, sh)
	if len(g.holds) > 0 && !g.ended {
		return true
	}
	g.finish(why)
	return false
}

// Check is part of zkrecipes.Grant: a read that is as new as the leader.
func (sh *share) Check(ctx context.Context) error {
	n := sh.grant.node
	if err := n.session.Sync(ctx, n.paths[0]); err != nil {
		return err
	}
	if err := n.requireExists(ctx); errors.Is(err, errRequeue) {
		return sh.deleted()
	} else {
		return err
	}
}

// deleted ends the grant for want of a node, and returns the error that says so.
func (sh *share) deleted() error {
	why := &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, Path: sh.Path(), At: time.Now()}
	sh.grant.lose(why)
	return why
}

// Txn is part of zkrecipes.Grant. The node's name is unique. So if it exists when the leader applies the ops, it is ours, and
// no other contender can have been granted what it stands for.
func (sh *share) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	n := sh.grant.node
	var guarded []any
	var own []string
	for _, path := range n.paths {
		own = append(own, sh.local(path))
		guarded = append(guarded, &zk.CheckVersionRequest{Path: sh.local(path), Version: -1})
	}
	guarded = append(guarded, ops...)
	responses, err := sh.through.client.View(n.session).Multi(ctx, guarded...)
	var failed *session.OpError
	switch {
	case err == nil:
		return responses[len(own):], nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return nil, err
	case errors.As(err, &failed) && slices.Contains(own, failed.Path) && errors.Is(err, zk.ErrNoNode):
		// The guard has failed, or one of ops that follows on a deletion of the contender in the same transaction.
		if gone := sh.Check(ctx); errors.Is(gone, zkrecipes.ErrLost) {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, gone)
		}
		return nil, err
	case errors.Is(err, zkrecipes.ErrLost):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
	default:
		return nil, err
	}
}
