package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// leader is one term. It rewrites the plan when the members, the shards or the plan itself have changed.
type leader struct {
	*Shards
	term *election.Term

	present []group.Member
	members []attendant // what those present announce; nil if not known yet
	shards  []string    // nil if not known yet
	last    plan        // the plan that the next one builds on
	at      value.Version
	known   bool // last and at are known
	written bool // last is in the node

	began   time.Time            // when the term began
	came    time.Time            // when a member last joined, as far as this leader knows
	changed time.Time            // when the members or the plan last changed
	wrote   time.Time            // when it wrote a plan; zero if there was news since
	pending time.Time            // since when another plan would be better; zero if none would be
	resumes time.Time            // when it may write again, after a plan that could not be written
	hangups session.Hangups      // under its plans
	missing map[string]time.Time // members that restart, and since when they have been missing
}

// never is how long a leader waits if it waits only for a change.
const never = 24 * time.Hour

// lead runs one term. If this member cannot continue as the leader, it waits, and then lets another member lead, which
// may have permission to read what this one cannot.
//
// Errors: why the term has ended; the error that ends the member.
func (m *member) lead(ctx context.Context, t *election.Term) error {
	err := m.planIn(ctx, t)
	if ctx.Err() != nil || !m.survives(err) {
		return err
	}
	m.log.Error("shard: this leader cannot continue, resigning so that another member can lead",
		"path", m.path, "id", m.id, "error", err)
	return session.Sleep(ctx, tryAgain)
}

// planIn writes plans until the term ends, or something that it needs cannot be read.
func (m *member) planIn(ctx context.Context, t *election.Term) error {
	ctx, fail := context.WithCancelCause(ctx)
	var feeds sync.WaitGroup
	defer feeds.Wait()
	defer fail(nil)
	members := feed(ctx, &feeds, fail, m.group.Watch(ctx, group.WithPayloads()))
	plans := feed(ctx, &feeds, fail, m.plan.Watch(ctx))
	sets := feed(ctx, &feeds, fail, m.from.names(ctx, m.Shards))
	l := &leader{Shards: m.Shards, term: t, began: time.Now(), came: m.joined, missing: map[string]time.Time{}}
	for {
		again, err := l.act(ctx)
		switch {
		case ctx.Err() != nil: // even if a write has failed with the term, so that its outcome is unknown
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		select {
		case view := <-members:
			l.seeMembers(view)
		case view := <-plans:
			l.seePlan(view)
		case names := <-sets:
			l.seeShards(names)
		case <-time.After(again):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// feed passes on what a sequence yields, on a goroutine that feeds waits for. It passes the sequence's error to fail.
func feed[T any](
	ctx context.Context, feeds *sync.WaitGroup, fail context.CancelCauseFunc, all iter.Seq2[T, error],
) <-chan T {
	next := make(chan T)
	feeds.Go(func() {
		for x, err := range all {
			if err != nil {
				fail(err)
				return
			}
			select {
			case next <- x:
			case <-ctx.Done():
				return
			}
		}
	})
	return next
}

func (l *leader) seeMembers(view group.View) {
	if !view.Current {
		return // a newer one follows
	}
	before := l.members
	isNone := func(m group.Member) bool { return m.Session == 0 } // a node without a session has no process behind it
	view.Members = slices.DeleteFunc(view.Members, isNone)
	l.present, l.members, l.changed, l.wrote = view.Members, attendants(view), time.Now(), time.Time{}
	for _, m := range l.members {
		if before != nil && !slices.ContainsFunc(before, func(other attendant) bool { return other.id == m.id }) {
			l.came = time.Now()
		}
	}
}

func (l *leader) seePlan(view value.View[plan]) {
	// Otherwise the plan has been read since.
	if view.Current && (!l.known || !view.Version.Exists() || view.Version.Mzxid > l.at.Mzxid) {
		l.learn(view.Value, view.Version, view.Err)
	}
}

// learn records what the node of the plan contains.
func (l *leader) learn(p plan, at value.Version, err error) {
	if err != nil {
		l.log.Error("shard: cannot read the plan, writing a new one", "path", l.plan.Path(), "error", err)
	}
	l.last, l.at, l.known = p, at, true
	l.written = true // unless there is nothing to start from, in which case recall makes up for it
}

func (l *leader) seeShards(names []string) {
	if err := l.checkNames(names); err != nil {
		l.log.Error("shard: the set of shards is invalid, keeping the previous one", "path", l.path, "error", err)
		return
	}
	before := l.shards
	l.shards, l.wrote = slices.Sorted(slices.Values(names)), time.Time{}
	if !slices.Equal(before, l.shards) {
		l.resumes = time.Time{} // the next plan may be smaller
	}
}

// act writes the next plan if there is one and it is due. It returns when to check again.
//
// Errors: why the term has ended; the server's error if retrying could not help.
func (l *leader) act(ctx context.Context) (again time.Duration, err error) {
	for l.members != nil && l.known {
		if wait := l.awaitShards(); wait > 0 {
			return wait, nil
		}
		if l.last.Owners == nil {
			if err := l.recall(ctx); err != nil {
				return 0, err
			}
		}
		r, left := l.roster()
		next, urgent := r.next(l.last)
		if l.written && next.same(l.last) {
			l.pending = time.Time{}
			return left, nil
		}
		if l.pending.IsZero() {
			l.pending = time.Now()
		}
		if wait := time.Until(l.due(urgent)); wait > 0 {
			return min(wait, left), nil
		}
		if err := l.write(ctx, next); err != nil {
			return 0, err
		}
	}
	return never, nil
}

// sourceLimit is how long a leader waits for its source before it uses the shards of the plan.
const sourceLimit = time.Second

// awaitShards returns how long to wait for the source, or 0 if the shards are known. If the source fails, the shards of
// the plan are kept, because otherwise the shards of a member that has gone would stay without an owner.
func (l *leader) awaitShards() (wait time.Duration) {
	if l.shards != nil {
		return 0
	}
	if wait := time.Until(l.began.Add(sourceLimit)); wait > 0 {
		return wait
	}
	names := slices.DeleteFunc(l.last.names(),
		func(name string) bool { return paths.ValidateName("shard", name) != nil })
	if len(names) == 0 {
		return never
	}
	l.log.Warn("shard: the source has not reported the set of shards yet, keeping that of the plan",
		"path", l.path, "shards", len(names))
	l.shards = names
	return 0
}

// breath is the minimum time between two plans without news in between, so that a strategy that never settles does not
// write without a pause.
const breath = 100 * time.Millisecond

// due returns the time at which to write a plan.
func (l *leader) due(urgent bool) time.Time {
	soonest, latest := l.changed.Add(l.quiet), l.pending.Add(l.most)
	if latest.Before(soonest) {
		soonest = latest
	}
	next := l.wrote.Add(breath)
	if next.Before(l.resumes) {
		next = l.resumes
	}
	if urgent || soonest.Before(next) {
		return next
	}
	return soonest
}

// recall makes up for a missing plan: members that hold shards keep them. A lock that this client may not read counts
// as free, because otherwise no leader could plan, and a wrong plan only costs time.
func (l *leader) recall(ctx context.Context) error {
	locked, err := l.client.Children(ctx, l.child("own"))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	slices.Sort(locked)
	held := slices.DeleteFunc(slices.Clone(l.shards), func(shard string) bool {
		_, found := slices.BinarySearch(locked, shard)
		return !found
	})
	holders, errs := l.holders(ctx, held, l.present)
	owners := map[string]string{}
	for i, h := range holders {
		if errors.Is(errs[i], zk.ErrNoAuth) {
			l.log.Error("shard: cannot read who holds a shard", "path", l.path, "shard", held[i], "error", errs[i])
			errs[i] = nil
		}
		owners[held[i]] = h.Name
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.last, l.written = newPlan(l.shards, owners, nil), false
	return nil
}

// roster returns the input for the next plan, and how much of the grace of restarting members is left.
func (l *leader) roster() (r roster, left time.Duration) {
	r = roster{shards: l.shards, members: l.members, over: map[string]bool{}, pins: l.pins, strategy: l.strategy}
	present := map[string]bool{}
	for _, m := range l.members {
		present[m.id] = true
	}
	left = never
	if wait := time.Until(l.came.Add(l.quiet)); wait > 0 {
		left = wait
	} else {
		r.complete = true
	}
	for id, wait := range l.last.Away {
		if present[id] {
			delete(l.missing, id)
			continue
		}
		if l.missing[id].IsZero() {
			l.missing[id] = time.Now()
		}
		grace := time.Until(l.missing[id].Add(time.Duration(min(wait, maxAway)) * time.Millisecond))
		if r.over[id] = grace <= 0; grace > 0 {
			left = min(left, grace)
		}
	}
	return r, left
}

// These are the pauses of a leader.
const (
	tryAgain = 5 * time.Second // after an error that may pass
	hungUp   = time.Minute     // after a plan on which servers hang up: each attempt costs the client its connection
)

// write writes a plan in the term, and reads back what has become of it. A deposed leader cannot change anything. After
// an error that may pass, write sets when to try again.
//
// Errors: those of act.
func (l *leader) write(ctx context.Context, next plan) error {
	size, err := l.checkSize(next)
	var op zkrecipes.Op
	if err == nil {
		op, err = l.plan.OpSet(next, l.at)
	}
	if err == nil {
		_, err = l.term.Txn(ctx, op)
		err = l.hangups.Judge(size, err)
	}
	switch {
	case err == nil:
		l.changed, l.wrote, l.pending = time.Now(), time.Now(), time.Time{}
		moves := next.moves(l.last)
		l.log.Info("shard: wrote a plan",
			"path", l.path, "shards", len(l.shards), "members", len(l.members), "moves", moves)
		l.tellPlan(next, moves)
	case ctx.Err() != nil, errors.Is(err, zkrecipes.ErrFenced):
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("write the plan %s: %w", l.plan.Path(), err)
	case errors.Is(err, zkrecipes.ErrTooLarge):
		l.resumes = time.Now().Add(hungUp)
		l.log.Error("shard: the plan is too large, keeping the previous one",
			"path", l.plan.Path(), "bytes", size, "again", hungUp, "error", err)
		return nil
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode),
		session.ReplyLost(err):
		l.log.Info("shard: the plan has changed, or may have", "path", l.plan.Path(), "error", err)
	default:
		l.resumes = time.Now().Add(tryAgain)
		l.log.Error("shard: cannot write the plan, keeping the previous one", "path", l.plan.Path(), "error", err)
		return nil
	}
	p, at, err := l.plan.Get(ctx)
	if err != nil && !at.Exists() {
		return err
	}
	l.learn(p, at, err)
	return nil
}
