package znode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// grant is a contender that has been granted, with the holds on it: one, or, when acquisitions are nested through the
// context, several. It ends with the last of them, or when it is lost.
type grant struct {
	*node
	queue   *Queue
	token   zkrecipes.Token
	revoked chan struct{}
	over    chan struct{} // closed when the grant has ended

	revokeOnce func() // closes revoked
	watch      func() // starts the monitors, once

	mu       sync.Mutex
	holds    map[*share]func(*zkrecipes.LostError)
	ended    bool
	stopLoss func()
	release  func() // of the session's retention
}

// share is what one hold has of a grant, through a queue that may be another client's, made by Sub, with other names for
// the same paths.
type share struct {
	*grant
	through *Queue
}

// local returns a path of the contender's as the client of the share sees it.
func (sh *share) local(path string) string {
	return sh.through.path + strings.TrimPrefix(path, sh.queue.path)
}

// grant makes the hold on n. It is the last gate: the session must be proven alive now, and the hold be on the
// session's list of those to end before the caller gets to see it.
func (q *Queue) grant(ctx context.Context, s *session.Session, n *node, release func(), e Entry) (*zkrecipes.Hold, error) {
	g := &grant{
		node: n, queue: q, release: release, token: cmp.Or(e.token, zkrecipes.Token(n.czxid)),
		revoked: make(chan struct{}), over: make(chan struct{}),
		holds: make(map[*share]func(*zkrecipes.LostError)),
	}
	g.revokeOnce = sync.OnceFunc(func() { close(g.revoked) })
	g.watch = sync.OnceFunc(func() {
		for _, path := range n.paths {
			s.Go(func(ctx context.Context) { g.monitor(ctx, path) })
		}
	})
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
	h, ok := g.hold(ctx, q)
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
	if !e.Lazy {
		g.watch()
	}
	return h, nil
}

// heldKey finds, in a context, the grant that it descends from.
type heldKey struct{ path, kind string }

// hold returns another hold on the grant, unless that has ended.
func (g *grant) hold(ctx context.Context, through *Queue) (*zkrecipes.Hold, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	sh := &share{g, through}
	key := heldKey{g.queue.client.Abs(g.queue.path), g.Kind}
	h, end := zkrecipes.NewHold(context.WithValue(ctx, key, g), sh)
	g.holds[sh] = end
	return h, true
}

// Held returns another hold on the contender of the given kind that ctx descends from, if there is one that is still
// held and ctx has not ended. The contender goes with the last of its holds.
func (q *Queue) Held(ctx context.Context, kind string) (*zkrecipes.Hold, bool) {
	g, ok := q.above(ctx, kind)
	if !ok || ctx.Err() != nil {
		return nil, false
	}
	return g.hold(ctx, q)
}

// Holds reports whether ctx descends from a contender of the given kind that is still held.
func (q *Queue) Holds(ctx context.Context, kind string) bool {
	g, ok := q.above(ctx, kind)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended
}

// above returns the grant that ctx descends from, if it is proven now.
func (q *Queue) above(ctx context.Context, kind string) (*grant, bool) {
	g, ok := ctx.Value(heldKey{q.client.Abs(q.path), kind}).(*grant)
	return g, ok && g.queue.client.Same(q.client) && time.Now().Before(g.ValidUntil())
}

// Beside takes, in one go, the place in the queue of the contender of another kind that ctx descends from: the rule sees
// that it is there together with ours, so that nobody behind it can have been let in. Both then hold the place, and it is
// free when both have left; so they have one token, and the next to get the place has a larger one. ErrNotHeld says that
// there is no such contender, or that it is being given up.
func (q *Queue) Beside(ctx context.Context, kind string, e Entry) (*zkrecipes.Hold, error) {
	g, ok := q.above(ctx, kind)
	if !ok {
		return nil, ErrNotHeld
	}
	e.Key, e.Rule, e.token = g.Key, beside(kind), g.token
	h, err := q.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		if s.ID() != g.session.ID() {
			return nil, ErrNotHeld
		}
		return q.acquire(ctx, s, e, false)
	})
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil, ErrNotHeld
	}
	return h, err
}

// ErrNotHeld says that a context does not descend from a hold that is still held.
var ErrNotHeld = errors.New("not held")

// Path is part of zkrecipes.Grant.
func (sh *share) Path() string { return sh.local(sh.path) }

// Token is part of zkrecipes.Grant.
func (g *grant) Token() zkrecipes.Token { return g.token }

// ValidUntil is part of zkrecipes.Grant.
func (g *grant) ValidUntil() time.Time { return g.session.ValidUntil() }

// Revoked is part of zkrecipes.Grant.
func (g *grant) Revoked() <-chan struct{} { return g.revoked }

// Release is part of zkrecipes.Grant.
func (sh *share) Release(ctx context.Context) error {
	if sh.leave() {
		return nil
	}
	// A context that descends from the hold has ended with it, which is no reason to complain.
	if err := sh.remove().wait(ctx); err != nil && !errors.Is(err, zkrecipes.ErrReleased) {
		return &session.OpError{Op: "release", Path: sh.Path(), Err: fmt.Errorf("the removal goes on: %w", err)}
	}
	return nil
}

// leave takes the share off its grant, ends the grant if it was the last, and reports whether others hold on. It is one
// step with ending the grant: a hold given out in between would be one on a contender that goes.
func (sh *share) leave() (held bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.holds, sh)
	if len(sh.holds) > 0 && !sh.ended {
		return true
	}
	sh.finish()
	return false
}

// lose ends all holds as lost, then sees to the node: in a session that lives on, it would stand in everybody's way. When it
// returns they have ended, also when somebody else is about to end them at that moment.
func (g *grant) lose(why *zkrecipes.LostError) {
	for sh, end := range g.drop() {
		lost := *why
		lost.Path = sh.Path()
		end(&lost)
	}
	g.remove()
}

// drop ends the grant, and returns what ends the holds that are left on it.
func (g *grant) drop() map[*share]func(*zkrecipes.LostError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finish()
	return maps.Clone(g.holds)
}

// finish is called with mu held; no more holds are given out after it.
func (g *grant) finish() {
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
		select {
		case <-g.over: // before this goroutine came to run: a short hold costs no watch
			return
		default:
		}
		data, _, w, err := g.session.GetW(ctx, path)
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
func (sh *share) Check(ctx context.Context) error {
	if err := sh.session.Sync(ctx, sh.path); err != nil {
		return err
	}
	for _, path := range sh.paths {
		exists, stat, err := sh.session.Exists(ctx, path)
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != sh.czxid {
			return sh.deleted()
		}
	}
	return nil
}

// deleted ends the grant for want of a node, and returns the error that says so.
func (sh *share) deleted() error {
	why := &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, Path: sh.Path(), At: time.Now()}
	sh.lose(why)
	return why
}

// Txn is part of zkrecipes.Grant. The contender's name is unique, so if it exists when the leader applies the ops, it is
// ours, and nobody else can have been granted what it stands for.
func (sh *share) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	var guarded []any
	var own []string
	for _, path := range sh.paths {
		own = append(own, sh.local(path))
		guarded = append(guarded, &zk.CheckVersionRequest{Path: sh.local(path), Version: -1})
	}
	guarded = append(guarded, ops...)
	responses, err := sh.through.client.View(sh.session).Multi(ctx, guarded...)
	var failed *session.OpError
	switch {
	case err == nil:
		return responses[len(own):], nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return nil, err
	case errors.As(err, &failed) && slices.Contains(own, failed.Path) && errors.Is(err, zk.ErrNoNode):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, sh.deleted())
	case errors.Is(err, zkrecipes.ErrLost):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
	default:
		return nil, err
	}
}
