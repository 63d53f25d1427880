// Package hold is about a contender that was granted: the holds on it, how they end, and work under a hold.
package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Grant is a node that has been granted, with the holds on it: one, or several if acquisitions are nested through the
// context. It ends with the last of them, or when it is lost.
type Grant struct {
	Node  *ephemeral.Node
	Token zkrecipes.Token

	done     chan struct{} // closed by stop
	handOver func()        // see Turn

	revoking  sync.Once // guards the closing of revoked
	detaching sync.Once // guards stop
	since     time.Time
	logged    sync.Once // that it was lost

	mu       sync.Mutex
	holds    []*share
	ended    bool
	open     int                  // guarded transactions that are on their way, or may be: the outcome is unknown
	lost     *zkrecipes.LostError // why it ended; nil if it was released
	revoked  chan struct{}        // nil until revocation is called
	traced   *tracedHold          // nil unless a tracer knows of it
	stopLoss func()
}

// share is what one hold has of a grant. It came through a parent that may be of another client, made by Sub, which has other
// names for the same paths.
type share struct {
	grant   *Grant
	through *ephemeral.Parent
	outer   *share                     // the next one that the context of the acquisition descends from; nil is none
	hold    *zkrecipes.Hold            // set before the caller sees it, as is end
	end     func(*zkrecipes.LostError) // ends the hold as lost
}

// local returns a path of the node as the client of the share sees it.
func (sh *share) local(path string) string {
	return sh.through.Path + strings.TrimPrefix(path, sh.grant.Node.Parent.Path)
}

// Turn is a contender whose turn it is.
type Turn struct {
	Node   *ephemeral.Node
	Token  zkrecipes.Token
	Config recipe.Config
	// Watch is on the node, if the waiter has one: the grant goes on with it. Otherwise Since fires on a connection newer than the one
	// that showed the node. With neither, the grant does not depend on whether the node is still there.
	Watch, Since *session.Watch
	// HandOver, unless it is nil, gives the place to the next waiter of the session. It is called after a release. All that the node
	// guards has been answered then, and its deletion is on its way.
	HandOver func()
}

// isInDoubt reports whether the node may have been deleted unnoticed since the waiter got its turn.
func (t *Turn) isInDoubt() bool {
	if t.Watch != nil {
		return t.Watch.HasFired()
	}
	return t.Since.HasFired()
}

// isUnwatched reports whether no event would tell if the node were deleted now.
func (t *Turn) isUnwatched() bool { return t.Watch == nil && t.Since != nil }

// confirm asks whether the node is still there, with a watch. The answer is as recent as the leader's state when confirm was called, also
// if another server gives it. It asks with exists, which needs no permission to read.
func (t *Turn) confirm(ctx context.Context) error {
	if t.Watch.SaysDeleted() {
		return ephemeral.ErrGone
	}
	n := t.Node
	if err := n.Session.Sync(ctx, n.Paths[0]); err != nil {
		return err
	}
	exists, stat, watch, err := n.Session.ExistsW(ctx, n.Paths[0])
	switch {
	case err != nil:
		return err
	case !exists, stat.Czxid != n.Czxid:
		n.Session.Unwatch(watch)
		return ephemeral.ErrGone
	}
	t.Watch = watch
	if len(n.Paths) > 1 {
		return n.RequireExists(ctx)
	}
	return nil
}

// Give makes the hold on a contender that is granted. It is the last gate: the session must be proven alive now, and its loss
// callback must be set before the caller sees the hold. On error the caller removes the node.
//
// The proof may take its time. Meanwhile the node may be deleted by hand and another client granted. No event tells of it if the node is
// not watched, or if the connection is lost as well. In both cases Give asks whether the node still exists. While it does, the turn stands:
// the parent is the same one, so nobody has come in ahead, and whoever had left is gone for good.
//
// Errors: the session's own; ErrGone if the node was lost meanwhile; the cause of ctx.
func Give(ctx context.Context, turn Turn, a *Attempt) (*zkrecipes.Hold, error) {
	n := turn.Node
	g := &Grant{Node: n, Token: turn.Token, handOver: turn.HandOver, done: make(chan struct{}), since: time.Now()}
	n.Session.BeginRetention()
	if err := g.endOnLoss(ctx, &turn); err != nil {
		g.detach()
		return nil, err
	}
	h, ok := g.hold(a.hold(ctx, g), n.Parent)
	if ok && ctx.Err() == nil {
		g.watch(turn.Watch)
		return h, nil
	}
	g.seal(nil)
	g.detach()
	g.traceEnd()
	switch {
	case n.Session.Err() != nil:
		return nil, n.Session.Err()
	case ctx.Err() == nil:
		return nil, ephemeral.ErrGone // lost between the proof and here
	default:
		return nil, context.Cause(ctx)
	}
}

// endOnLoss sets the callback that ends the grant with its session. When it returns nil, the session is proven alive and the turn is
// not in doubt, both at once: each of the two questions may outlast the answer to the other.
func (g *Grant) endOnLoss(ctx context.Context, turn *Turn) error {
	s, lossOnSuspend := g.Node.Session, turn.Config.LossOnSuspend
	for {
		waits := !s.Proven()
		if err := s.Prove(ctx); err != nil {
			return err
		}
		if turn.isInDoubt() || waits && turn.isUnwatched() {
			if err := turn.confirm(ctx); err != nil {
				return err
			}
			continue
		}
		stop, ok := s.OnLoss(lossOnSuspend, g.endHolds)
		if ok {
			g.mu.Lock()
			g.stopLoss = stop
			g.mu.Unlock()
			return nil
		}
		if lossOnSuspend {
			// Proven, but not connected. The next answer comes when it is.
			if err := s.Sync(ctx, g.Node.Parent.Path); err != nil {
				return err
			}
		}
	}
}

// hold returns another hold on the grant, unless that has ended.
func (g *Grant) hold(ctx context.Context, through *ephemeral.Parent) (*zkrecipes.Hold, bool) {
	sh := &share{grant: g, through: through, outer: shareOf(ctx)} // without mu: a context that is asked may find its own hold lapsed, and release it
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	sh.hold, sh.end = zkrecipes.NewHold(context.WithValue(ctx, shareKey{}, sh), sh)
	g.holds = append(g.holds, sh)
	return sh.hold, true
}

// revokeOnce tells the holders that they are asked to release.
func (g *Grant) revokeOnce() { g.revoking.Do(func() { close(g.revocation()) }) }

// revocation returns the channel that revokeOnce closes.
func (g *Grant) revocation() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revoked == nil {
		g.revoked = make(chan struct{})
	}
	return g.revoked
}

// lose ends all holds as lost, and then removes the node.
func (g *Grant) lose(why *zkrecipes.LostError) { g.endHolds(why)() }

// endHolds ends all holds as lost. Every loss comes here: from the session (endOnLoss), from the watch on the node
// (watchPath), from Check, and from a hold that looked at the clock and has ended itself (Lapse). The first decides what the holds say.
//
// When it returns the holds have ended, also if another goroutine was about to end them. What it returns logs that and removes the
// node: in a session that lives on, it would be in the way of others. A session with many grants calls that when the holds of all
// of them have ended.
func (g *Grant) endHolds(why *zkrecipes.LostError) (afterwards func()) {
	holds := g.seal(why)
	for _, sh := range holds {
		lost := *why
		lost.Path = sh.Path()
		sh.end(&lost)
	}
	return func() {
		if len(holds) > 0 {
			g.logLoss(why)
		}
		g.detach()
		g.traceEnd()
		g.Node.Remove()
	}
}

// seal ends the grant: after it no hold is given out. It returns the holds that are left, which the caller ends.
func (g *Grant) seal(why *zkrecipes.LostError) []*share {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.ended, g.lost = true, why
	}
	return slices.Clone(g.holds)
}

// detach ends what the session does for the grant: its watches, the callback, the retention. It is called, once or more, when the
// grant has ended, without mu.
func (g *Grant) detach() {
	g.detaching.Do(func() {
		close(g.done)
		g.mu.Lock()
		stopLoss := g.stopLoss
		g.mu.Unlock()
		if stopLoss != nil {
			stopLoss()
		}
		g.Node.Session.EndRetention()
	})
}

// Path is part of zkrecipes.Backing.
func (sh *share) Path() string { return sh.local(sh.grant.Node.Paths[0]) }

// Token is part of zkrecipes.Backing.
func (sh *share) Token() zkrecipes.Token { return sh.grant.Token }

// ValidUntil is part of zkrecipes.Backing.
func (sh *share) ValidUntil() time.Time { return sh.grant.Node.Session.ValidUntil() }

// OnExpiring is part of zkrecipes.Backing.
func (sh *share) OnExpiring(lead time.Duration, f func()) (stop func()) {
	return sh.grant.Node.Session.OnExpiring(lead, f)
}

// Revoked is part of zkrecipes.Backing.
func (sh *share) Revoked() <-chan struct{} { return sh.grant.revocation() }

// Release is part of zkrecipes.Backing.
func (sh *share) Release(ctx context.Context) error {
	g, n := sh.grant, sh.grant.Node
	held, handsOver := sh.letGo()
	if held {
		return nil
	}
	g.detach()
	g.traceEnd()
	// Nothing is sent if there is no connection, or if a late copy of the create may come: see ephemeral.Node.Remove.
	if sent := n.Remove(); sent && handsOver && g.handOver != nil {
		g.handOver()
	}
	// A context that descends from the hold has ended with it, which is no error.
	if err := n.WaitRemoved(ctx); err != nil && !errors.Is(err, zkrecipes.ErrReleased) {
		return &session.OpError{Op: "release", Path: sh.Path(), Err: fmt.Errorf("the removal goes on: %w", err)}
	}
	return nil
}

// Lapse is part of zkrecipes.Backing.
func (sh *share) Lapse(until time.Time) {
	sh.grant.lose(&zkrecipes.LostError{Reason: zkrecipes.LossDeadline, At: until})
}

// logLoss logs that the grant was lost, once. To close the client is the owner's own doing, and no reason to warn.
func (g *Grant) logLoss(why *zkrecipes.LostError) {
	write := g.Node.Parent.Client.Logger().Warn
	if why.Reason == zkrecipes.LossClosed {
		write = g.Node.Parent.Client.Logger().Info
	}
	g.logged.Do(func() {
		attrs := []any{
			"path", g.Node.Paths[0], "token", g.Token, "reason", why.Reason.String(),
			"held", why.At.Sub(g.since).Round(time.Millisecond), "session", fmt.Sprintf("0x%x", uint64(g.Node.Session.ID())),
		}
		if why.Err != nil {
			attrs = append(attrs, "error", why.Err)
		}
		write("zookeeper: hold lost", attrs...)
	})
}

// letGo takes the share off its grant, and ends the grant if it was the last. It reports whether other holds are left. If none is, it
// reports whether the grant hands its place over: it was not lost, and nothing is on its way that the node guards. All is one step:
// a hold given out in between would be on a node that is being removed.
func (sh *share) letGo() (held, handsOver bool) {
	g := sh.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = slices.DeleteFunc(g.holds, func(other *share) bool { return other == sh })
	if len(g.holds) > 0 && !g.ended {
		return true, false
	}
	handsOver = !g.ended && g.open == 0
	g.ended = true
	return false, handsOver
}

// Check is part of zkrecipes.Backing: a read that is as new as the leader.
func (sh *share) Check(ctx context.Context) error {
	n := sh.grant.Node
	if err := n.Session.Sync(ctx, n.Paths[0]); err != nil {
		return err
	}
	if err := n.RequireExists(ctx); errors.Is(err, ephemeral.ErrGone) {
		return sh.deleted()
	} else {
		return err
	}
}

// deleted ends the grant for want of a node, and returns the error that says so.
func (sh *share) deleted() error {
	why := sh.grant.gone()
	why.Path = sh.Path()
	sh.grant.lose(why)
	return why
}

// beginTxn notes a transaction that the node guards. Its end is told to endTxn. While there is one, a release hands nothing over: a late
// copy must find the node gone before anybody else holds.
//
// Errors: the grant has ended.
func (sh *share) beginTxn() error {
	g := sh.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.ended:
		g.open++
		return nil
	case g.lost == nil:
		return zkrecipes.ErrReleased
	default:
		lost := *g.lost
		lost.Path = sh.Path()
		return &lost
	}
}

func (sh *share) endTxn(err error) {
	g := sh.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		g.open--
	}
}

// Txn is part of zkrecipes.Backing.
func (sh *share) Txn(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return guarded(ctx, []*share{sh}, ops)
}

// guarded applies ops if the nodes of all shares, which are of one client, exist when the leader applies them. The name of a node is
// unique. So if it exists then, it is ours, and no other contender can have been granted what it stands for: see beginTxn. The first share
// names the paths of ops.
func guarded(ctx context.Context, shares []*share, ops []zkrecipes.Op) (results []zkrecipes.OpResult, err error) {
	through := shares[0].through.Client
	var guards []zkrecipes.Op
	var guardians []*share // of the guards, in their order
	for _, sh := range shares {
		if err := sh.beginTxn(); err != nil {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
		}
		defer func() { sh.endTxn(err) }()
		for _, path := range sh.grant.Node.Paths {
			guards = append(guards, zkrecipes.OpCheck(through.Rel(sh.through.Client.Abs(sh.local(path))), -1))
			guardians = append(guardians, sh)
		}
	}
	results, err = through.Reroot(shares[0].grant.Node.Session).Multi(ctx, append(guards, ops...)...)
	var failed *session.OpError
	switch {
	case err == nil:
		return results[len(guards):], nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return nil, err
	case errors.As(err, &failed) && errors.Is(err, zk.ErrNoNode):
		// A guard has failed, or one of ops that follows on a deletion of a contender in the same transaction.
		if i := slices.IndexFunc(guards, func(guard zkrecipes.Op) bool { return guard.Path == failed.Path }); i >= 0 {
			if gone := guardians[i].Check(ctx); errors.Is(gone, zkrecipes.ErrLost) {
				return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, gone)
			}
		}
		return nil, err
	case errors.Is(err, zkrecipes.ErrLost):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
	default:
		return nil, err
	}
}
