// Package hold manages granted contenders: how they are granted (FromTurn), the holds on them (Grant, nested.go), how
// those end (endHolds for a loss, leaveGrant for a release), the watch on the node (watch.go), the transactions that it
// guards (guarded; together.go for several holds), and the work done under a hold (body.go, run.go).
package hold

import (
	"cmp"
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

// Grant is a granted node together with the holds on it: one, or several if acquisitions are nested through the
// context. It ends when its last hold is released, or when it is lost.
type Grant struct {
	Node  *ephemeral.Node
	Token zkrecipes.Token

	place Place // see Turn

	detaching sync.Once // guards what detach does
	logged    sync.Once // guards the log entry about its loss

	mu       sync.Mutex
	holds    []*backing
	first    backing     // memory for the first
	one      [1]*backing // the array of holds while there is one
	ended    bool
	asked    bool                 // revoked is closed
	detached bool                 // unwatch is closed, or will be closed as soon as it is created
	openTxns int32                // guarded transactions that are in flight, or may be because their outcome is unknown
	lost     *zkrecipes.LostError // why it ended; nil if it was released
	revoked  chan struct{}        // closed by revokeOnce; nil until revocation is called
	unwatch  chan struct{}        // for the goroutines that watch the node; nil until unwatched is called
	traced   *tracedHold          // nil unless a tracer has seen it
	stopLoss func()
	later    *time.Timer // see watchLater; may be nil
}

// backing is the part that one hold has in a grant. The hold was acquired through a parent that may belong to another
// client, made by Sub, in which the same nodes have different paths.
type backing struct {
	context.Context //nolint:containedctx // that of the acquisition, for its values
	grant           *Grant
	through         *ephemeral.Parent
	hold            *zkrecipes.Hold            // set before the caller sees it, as is end
	end             func(*zkrecipes.LostError) // ends the hold as lost
}

// local translates one of the node's paths to the path it has in the hold's client.
func (b *backing) local(path string) string {
	return b.through.Path + strings.TrimPrefix(path, b.grant.Node.Parent.Path)
}

// Turn is a contender whose turn it is.
type Turn struct {
	Node   *ephemeral.Node
	Token  zkrecipes.Token
	Config recipe.Config
	// Watch is the waiter's watch on the node, if it has one; the grant takes it over. Otherwise NextConnection fires on a
	// connection newer than the one that showed the node. If both are nil, as in Queue.AcquireBy, nothing checks that the
	// node still exists.
	Watch, NextConnection *session.Watch
	Place                 Place // nil if there is none to pass on
}

// Place is a contender's place in the queue.
type Place interface {
	// PassOn passes the place to the waiter just behind, if that is of the same queue and session. It is called after a
	// release, when everything that the node guards has been answered and its deletion has been sent.
	PassOn()
}

// mayBeGone reports whether the node may have been deleted unnoticed since the waiter's turn came.
func (t *Turn) mayBeGone() bool {
	if t.Watch != nil {
		return t.Watch.HasFired()
	}
	return t.NextConnection.HasFired()
}

// isUnwatched reports whether the deletion of the node would matter but go unnoticed, because nothing watches the node.
func (t *Turn) isUnwatched() bool { return t.Watch == nil && t.NextConnection != nil }

// confirm checks that the node still exists, and watches it. The answer is as recent as the leader's state when confirm
// was called, even if another server gives it. It uses exists, which needs no read permission before 3.8.4 and 3.9.2.
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

// FromTurn creates the hold on a granted contender. It is the last gate: the proof of the session must last long enough
// for a grant (otherwise [session.Session.Prove] asks the leader), and the loss callback must be set before the caller
// sees the hold. On error the caller removes the node.
//
// The proof may take a while. Meanwhile the node may be deleted by hand and another client granted. No event reports
// this if the node is not watched, or if the connection is lost as well; in both cases FromTurn checks that the node
// still exists. While it does, the turn is valid: the parent is the same one, so nobody has entered ahead, and those
// that had left are gone for good.
//
// Errors: the session's own; ErrGone if the node was lost in the meantime; the cause of ctx.
func FromTurn(ctx context.Context, turn Turn, a *Attempt) (*zkrecipes.Hold, error) {
	n := turn.Node
	g := &Grant{Node: n, Token: turn.Token, place: turn.Place}
	n.Session.BeginRetention()
	if err := g.proveAndRegister(ctx, &turn); err != nil {
		g.detach()
		return nil, err
	}
	h, ok := g.addHold(a.traceStart(ctx, g), n.Parent, &g.first)
	if ok && ctx.Err() == nil {
		g.watch(turn.Watch)
		return h, nil
	}
	g.end(nil) // nobody has seen the hold
	g.detach()
	g.traceEnd()
	switch {
	case n.Session.Err() != nil:
		return nil, n.Session.Err()
	case ctx.Err() == nil:
		return nil, ephemeral.ErrGone // lost between the proof and here
	default:
		return nil, session.CauseOf(ctx)
	}
}

// proveAndRegister registers the callback that ends the grant with its session. When it returns nil, two things are
// true at the same time: the proof lasts long enough for a grant, and the turn is not in doubt. It loops because either
// check may take so long that the other's answer is outdated.
func (g *Grant) proveAndRegister(ctx context.Context, turn *Turn) error {
	s, lossOnSuspend := g.Node.Session, turn.Config.LossOnSuspend
	for {
		err, waited := s.Err(), !s.EnoughForGrant()
		// Prove reads the clock again: called always, it could wait although waited is false.
		if err == nil && waited {
			err = s.Prove(ctx)
		}
		if err != nil {
			return err
		}
		if turn.mayBeGone() || waited && turn.isUnwatched() {
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
			// The session is proven, but not connected. The next answer arrives once it is.
			if err := s.Sync(ctx, g.Node.Parent.Path); err != nil {
				return err
			}
		}
	}
}

// addHold adds a hold to the grant, unless the grant has ended. b is the memory for its backing.
func (g *Grant) addHold(ctx context.Context, through *ephemeral.Parent, b *backing) (*zkrecipes.Hold, bool) {
	*b = backing{Context: ctx, grant: g, through: through}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false
	}
	b.hold, b.end = zkrecipes.NewHold(b, b)
	if g.holds == nil {
		g.holds = g.one[:0]
	}
	g.holds = append(g.holds, b)
	return b.hold, true
}

// revokeOnce notifies the holders of a request to release.
func (g *Grant) revokeOnce() {
	revoked := g.revocation()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked {
		g.asked = true
		close(revoked)
	}
}

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

// endHolds ends all holds as lost. Every loss arrives here: from the session (proveAndRegister), from the watch on the
// node (watchPath), from Check, and from a hold that looked at the clock and ended itself (Lapse). The first one
// determines what the other holds report.
//
// When it returns, the holds have ended, even if another goroutine was about to end them. The returned function logs
// the loss and removes the node, which would block others if the session lives on. A session calls these
// functions only after the holds of all its grants have ended, and closes Done after that.
func (g *Grant) endHolds(why *zkrecipes.LostError) (afterwards func()) {
	holds := g.end(why)
	if g.lost != nil {
		why = g.lost // which does not change after end
	}
	for _, b := range holds {
		lost := *why
		lost.Path = b.Path()
		b.end(&lost)
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

// end ends the grant, so that no more holds are added. It returns the remaining holds, which the caller must end.
func (g *Grant) end(why *zkrecipes.LostError) []*backing {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.ended, g.lost = true, why
	}
	return slices.Clone(g.holds)
}

// detach stops what the session does for the grant: its watches, the callback, and its retention (see Lifetime.Retain).
// It is called, possibly more than once, when the grant has ended or will hold nothing, and without holding mu.
func (g *Grant) detach() {
	g.detaching.Do(func() {
		g.mu.Lock()
		stopLoss := g.stopLoss
		g.detached = true
		if g.unwatch != nil {
			close(g.unwatch)
		}
		if g.later != nil {
			g.later.Stop()
		}
		g.mu.Unlock()
		if stopLoss != nil {
			stopLoss()
		}
		g.Node.Session.EndRetention()
	})
}

// Value makes the backing the context from which its hold takes its values.
func (b *backing) Value(key any) any {
	if key == (backingKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// isAbove reports whether ctx descends from the hold.
func (b *backing) isAbove(ctx context.Context) bool {
	for of := backingOf(ctx); of != nil; of = backingOf(of.Context) {
		if of == b {
			return true
		}
	}
	return false
}

// isDetached reports whether detach was called.
func (g *Grant) isDetached() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.detached
}

// unwatched returns the channel that detach closes.
func (g *Grant) unwatched() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unwatch == nil {
		g.unwatch = make(chan struct{})
		if g.detached {
			close(g.unwatch)
		}
	}
	return g.unwatch
}

// Path is part of zkrecipes.Backing.
func (b *backing) Path() string { return b.local(b.grant.Node.Paths[0]) }

// Token is part of zkrecipes.Backing.
func (b *backing) Token() zkrecipes.Token { return b.grant.Token }

// ValidUntil is part of zkrecipes.Backing.
func (b *backing) ValidUntil() time.Time { return b.grant.Node.Session.ValidUntil() }

// OnExpiring is part of zkrecipes.Backing.
func (b *backing) OnExpiring(lead time.Duration, f func()) (stop func()) {
	return b.grant.Node.Session.OnExpiring(lead, f)
}

// Revoked is part of zkrecipes.Backing.
func (b *backing) Revoked() <-chan struct{} { return b.grant.revocation() }

// Release is part of zkrecipes.Backing.
func (b *backing) Release(ctx context.Context) error {
	g, n := b.grant, b.grant.Node
	othersHold, passesOn, lost := b.leaveGrant()
	if othersHold {
		return nil
	}
	if lost != nil {
		// Lost just as this hold was released. The other holds may not have ended yet, and they must before the node is
		// deleted.
		g.lose(lost)
	}
	g.detach()
	g.traceEnd()
	// Nothing is sent without a connection, or if a late copy of the create may arrive: see ephemeral.Node.Remove.
	if sent := n.Remove(); sent && passesOn && g.place != nil {
		g.place.PassOn()
	}
	// A context that descends from the hold has ended with it, which is not an error.
	if err := n.WaitRemoved(ctx); err != nil && (!errors.Is(err, zkrecipes.ErrReleased) || !b.isAbove(ctx)) {
		return &session.OpError{Op: "release", Path: b.Path(), Err: fmt.Errorf("the node is not deleted yet: %w", err)}
	}
	return nil
}

// Lapse is part of zkrecipes.Backing.
func (b *backing) Lapse(until time.Time) {
	b.grant.lose(&zkrecipes.LostError{Reason: zkrecipes.LossDeadline, At: until})
}

// logLoss logs the loss of the grant once. Closing the client is the owner's own decision, and does not warrant a
// warning.
func (g *Grant) logLoss(why *zkrecipes.LostError) {
	write := g.Node.Parent.Client.Logger().Warn
	if why.Reason == zkrecipes.LossClosed {
		write = g.Node.Parent.Client.Logger().Info
	}
	g.logged.Do(func() {
		attrs := []any{
			"path", g.Node.Paths[0], "token", g.Token, "reason", why.Reason.String(),
			"held", max(0, why.At.Sub(g.first.hold.Since())).Round(time.Millisecond),
			"session", fmt.Sprintf("0x%x", uint64(g.Node.Session.ID())),
		}
		if why.Err != nil {
			attrs = append(attrs, "error", why.Err)
		}
		write("zookeeper: hold lost", attrs...)
	})
}

// leaveGrant removes the hold from its grant, and ends the grant if it was the last. It reports whether others still
// hold. If none does, it also reports whether the grant passes its place on, and why it was lost, or nil. A grant that
// was lost, or whose node guards something in flight, passes nothing on. All of this is one step, because a hold added
// in between would be on a node that is being removed.
func (b *backing) leaveGrant() (othersHold, passesOn bool, lost *zkrecipes.LostError) {
	g := b.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = slices.DeleteFunc(g.holds, func(other *backing) bool { return other == b })
	if len(g.holds) > 0 && !g.ended {
		return true, false, nil
	}
	passesOn = !g.ended && g.openTxns == 0
	g.ended = true
	return false, passesOn, g.lost
}

// Check is part of zkrecipes.Backing: a read at least as recent as the leader's state when it was called.
func (b *backing) Check(ctx context.Context) error {
	n := b.grant.Node
	if err := n.Session.Sync(ctx, n.Paths[0]); err != nil {
		return err
	}
	if err := n.RequireExists(ctx); errors.Is(err, ephemeral.ErrGone) {
		return b.loseDeleted()
	} else {
		return err
	}
}

// loseDeleted ends the grant because its node is gone, and returns the error that reports this.
func (b *backing) loseDeleted() error {
	why := b.grant.lossWhenGone()
	b.grant.lose(why)
	lost := *cmp.Or(b.grant.lost, why) // the reason that came first, which does not change after lose
	lost.Path = b.Path()
	return &lost
}

// beginTxn records a transaction that the node guards; endTxn records its outcome. While one is open, a release passes
// nothing on: the node must be gone before anybody else holds. A copy of the transaction that arrives late, or is sent
// again after a server refused it under load, then fails.
//
// Errors: if the grant has ended.
func (b *backing) beginTxn() error {
	g := b.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.ended:
		g.openTxns++
		return nil
	case g.lost == nil:
		return zkrecipes.ErrReleased
	default:
		lost := *g.lost
		lost.Path = b.Path()
		return &lost
	}
}

func (b *backing) endTxn(err error) {
	g := b.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		g.openTxns--
	}
}

// isOver reports whether the hold, its grant or its session has ended.
func (b *backing) isOver() bool {
	return b.hold.Err() != nil || !b.grant.IsHeld() || b.grant.Node.Session.Err() != nil
}

// Txn is part of zkrecipes.Backing.
func (b *backing) Txn(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return guarded(ctx, []*backing{b}, ops)
}

// guarded applies ops if the nodes of all holds, which belong to one client, exist when the leader applies them. The
// name of a node is unique, so a node that exists then is ours, unless somebody has created it by hand, and no other
// contender can have been granted what it represents: see beginTxn. The paths of ops are those of the first hold's
// client.
func guarded(ctx context.Context, backings []*backing, ops []zkrecipes.Op) (results []zkrecipes.OpResult, err error) {
	through := backings[0].through.Client
	var guards []zkrecipes.Op
	var guardians []*backing // parallel to guards
	for _, b := range backings {
		if err := b.beginTxn(); err != nil {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
		}
		defer func() { b.endTxn(err) }()
		for _, path := range b.grant.Node.Paths {
			guards = append(guards, zkrecipes.OpCheck(through.Rel(b.through.Client.Abs(b.local(path))), -1))
			guardians = append(guardians, b)
		}
	}
	results, err = through.Reroot(backings[0].grant.Node.Session).Multi(ctx, append(guards, ops...)...)
	var failed *session.OpError
	switch {
	case err == nil:
		return results[len(guards):], nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome):
		return nil, err
	case errors.As(err, &failed) && errors.Is(err, zk.ErrNoNode):
		// Either a guard has failed, or a check of a contender that an earlier op of the same transaction has deleted.
		// If in doubt, it was the guard.
		i := slices.IndexFunc(guards, func(guard zkrecipes.Op) bool { return guard.Path == failed.Path })
		if i >= 0 && failed.Op == "multi: "+string(zkrecipes.KindCheck) {
			if gone := guardians[i].hold.Check(ctx); gone != nil {
				return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, gone)
			}
		}
		return nil, err
	// Otherwise it is another hold, from which ctx descends, that has ended.
	case (errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, zkrecipes.ErrReleased)) &&
		slices.ContainsFunc(backings, (*backing).isOver):
		return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
	default:
		return nil, err
	}
}
