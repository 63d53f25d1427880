package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// member is one call of Run. Its goroutines are one that follows the plan, one that waits to leave (with [WithLeave]),
// one that campaigns and leads, one that stops workers, one that announces changes to the group, and a worker for each
// shard.
type member struct {
	*Shards
	from  Source
	serve func(context.Context, *Shard) error
	// ctx is the context of the work. It ends when this member must stop, and its cause is the reason.
	ctx  context.Context         //nolint:containedctx // see above
	stop context.CancelCauseFunc // ends ctx
	over chan struct{}           // closed when Run is about to return

	gate   chan struct{} // one worker at a time contends for its lock
	passed int           // how many have; guarded by gate

	workers    sync.WaitGroup
	background sync.WaitGroup // the other goroutines

	mu         sync.Mutex
	kept       *group.Membership
	joined     time.Time // when it joined; written before the other goroutines start
	presence   presence
	says, said int                // count the states of presence, and those that the server has had
	current    bool               // the plan that was read last is current
	generation int64              // of that plan
	given      []string           // the shards that it gives to this member's ID
	taken      bool               // another session has the ID, so they are not for this member
	mine       map[string]bool    // the shards assigned to this member
	expected   bool               // the plan announces that this member will return
	at         map[string]*worker // the latest worker of each shard, until it has ended
	moved      []string           // shards whose workers must be stopped, in this order
	stopped    bool               // no more workers start
	changed    chan struct{}      // closed, and replaced, when one of the above changes
}

// errDrained is the cause for a member that ends because it has left.
var errDrained = errors.New("the member has left")

// Run makes this process a member until ctx is done. For each shard that the plan assigns to it, Run acquires the lock
// and calls the serve function in a goroutine. The function's context is canceled when the plan takes the shard away
// (the cause is [ErrMoved]), when the hold is lost, or when ctx is done. Run releases the lock only when the function
// returns, or when the time set by [WithDrainLimit] expires. As a result, a function that returns when its context is
// done has stopped before the next owner starts.
//
// If the function returns before its context is done, Run calls it again after a pause of 100 ms the first time,
// doubling each time up to 30 seconds, with a jitter of 50% either way. If it returns an error as many times in a row
// as [WithGiveUp] allows, Run gives the shard away: another member gets it, and this one doesn't get it again for five
// minutes. A call that lasts a minute resets the pause and the count. If all members have given a shard away, it stays
// where it is, and Run keeps trying. Run logs failures, but does not recover from panics, which end the program.
//
// Losing a hold is not a failure: Run acquires the lock again. If the hold was lost within a second, it first pauses
// for 50 ms, doubling each time up to 500 ms, with the same jitter. A longer hold resets this pause.
//
// When ctx is done, all functions stop immediately, and the other members get the shards. With [WithReturnGrace] the
// shards wait for this member instead, and with [WithLeave] they are handed over one after another, as by
// [Shards.Leave]. Even if it fails, Run returns only when all functions have returned. A Shards can have only one Run
// at a time.
//
// If the plan or the members cannot be read or written, Run logs that and keeps trying. The functions continue, and
// another member leads if it can.
//
// Errors: before sending any request, a nil serve function, an invalid source, or another Run of the same Shards;
// context.Cause(ctx); ErrClosed; the server's error when the member joins; zk.ErrNoAuth, ErrForeignContender,
// ErrSequenceExhausted or ErrUnsupportedServer, if the member has never seen a plan. The error is nil after Leave, or
// if everything is handed over within the time set by WithLeave.
func (s *Shards) Run(ctx context.Context, from Source, serve func(ctx context.Context, s *Shard) error) error {
	switch {
	case serve == nil:
		return errors.New("shard: the function is nil: want one that serves a shard")
	case from.names == nil:
		return errors.New("shard: the source is empty: want shard.List, shard.Func or shard.Node")
	}
	if err := from.check(s); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	m := &member{
		Shards: s, from: from, serve: serve, over: make(chan struct{}), gate: make(chan struct{}, 1),
		presence: presence{Weight: s.weight}, at: map[string]*worker{}, changed: make(chan struct{}),
	}
	working := ctx
	if s.leaveLimit > 0 {
		working = context.WithoutCancel(ctx)
	}
	m.ctx, m.stop = context.WithCancelCause(working)
	defer m.stop(nil)
	if !s.enter(m) {
		return errors.New("shard: Run is already running: create another Shards for another member")
	}
	defer close(m.over)
	defer s.exit()
	if err := m.run(ctx); !errors.Is(err, errDrained) {
		return err
	}
	return nil
}

// enter registers the running member. It returns false if there already is one.
func (s *Shards) enter(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member != nil {
		return false
	}
	s.member = m
	return true
}

func (s *Shards) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member = nil
}

// Leave makes a running member hand over its shards and leave. It stops the member's functions one after another, while
// the others continue, and the next owner of each shard starts when that shard's function stops. Run then returns nil,
// and Leave blocks until it does. If there is no running member, Leave is a no-op.
//
// If the plan cannot be changed, the member keeps its shards. If ctx is done first, Leave returns, but the member keeps
// trying to leave until Run's context is done.
//
// Errors: context.Cause(ctx).
func (s *Shards) Leave(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("leave %s: %w", s.path, session.ErrNoContext)
	}
	s.mu.Lock()
	m := s.member
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	m.leave()
	select {
	case <-m.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave %s: still leaving: %w", s.path, session.CauseOf(ctx))
	}
}

func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil { // it has not joined yet
		m.stop(errDrained)
		return
	}
	m.say(func(p *presence) { p.Leaving = true })
}

// leaveAfter leaves when ctx ends, and stops what has not been handed over in time.
func (m *member) leaveAfter(ctx, life context.Context) {
	select {
	case <-ctx.Done():
	case <-life.Done():
		return
	}
	m.leave()
	select {
	case <-time.After(m.leaveLimit):
		m.stop(session.CauseOf(ctx))
	case <-life.Done():
	}
}

func (m *member) run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // of what runs until the last worker has ended
	defer m.background.Wait()
	defer end()
	if m.leaveLimit > 0 {
		m.background.Go(func() { m.leaveAfter(ctx, life) })
	}
	if err := m.join(ctx); err != nil {
		return err
	}
	m.background.Go(func() { m.announce(life) })
	m.background.Go(func() { m.keepID(life) })
	m.background.Go(func() { m.stop(m.persist(life, m.follow)) })
	m.background.Go(func() {
		m.stop(m.persist(life, func(ctx context.Context) error { return m.election.Run(ctx, m.lead) }))
	})
	m.background.Go(m.handOver)
	if m.await(m.ctx, m.isDrained) == nil {
		m.stop(errDrained)
	}
	m.close()
	m.depart(ctx, life)
	m.workers.Wait()
	return m.cause(ctx)
}

// cause returns why the member has stopped. Only the cause of Run's context may be about another call.
func (m *member) cause(ctx context.Context) error {
	if why := context.Cause(m.ctx); ctx.Err() == nil || !errors.Is(why, context.Cause(ctx)) {
		return why
	}
	return session.CauseOf(ctx)
}

// join joins the group. If another process has the ID, join waits for it to leave.
func (m *member) join(ctx context.Context) error {
	data, err := json.Marshal(m.presence)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	kept, err := m.group.Join(m.ctx, m.id, data)
	if errors.Is(err, zkrecipes.ErrTaken) {
		m.log.Warn("shard: another session has the id of this member, waiting until that session has ended",
			"path", m.path, "id", m.id, "error", recipe.Loggable(err))
		kept, err = m.group.Join(m.ctx, m.id, data, group.WithWait())
	}
	if err != nil && m.ctx.Err() != nil {
		return m.cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.joined = kept, time.Now()
	return nil
}

// persist calls f again, after a pause, for as long as the member survives the errors from f.
func (m *member) persist(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if ctx.Err() != nil || !m.survives(err) {
			return err
		}
		m.log.Error("shard: this member keeps its shards and tries again",
			"path", m.path, "id", m.id, "after", tryAgain, "error", err)
		_ = session.Sleep(ctx, tryAgain) // f checks ctx
	}
}

// survives reports whether a member continues after an error. Its functions do no harm in the meantime, because they
// hold their locks, whereas an error that hits all members, one after another, would leave none that serves. A member
// that has never seen a plan ends if the servers refuse what it needs, because that is a mistake in its configuration,
// which Run reports immediately.
func (m *member) survives(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, zkrecipes.ErrClosed):
		return false
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zkrecipes.ErrForeignContender),
		errors.Is(err, zkrecipes.ErrSequenceExhausted), errors.Is(err, zkrecipes.ErrUnsupportedServer):
		return m.generation > 0
	}
	return true
}

// leaveStep bounds each step of a member that leaves while it is not connected.
const leaveStep = time.Second

// depart leaves the group. If ctx, the context of Run, is done, the member restarts, and the plan must announce that
// first.
func (m *member) depart(ctx, life context.Context) {
	m.mu.Lock()
	leaving := m.presence.Leaving // its shards move, even if the time was too short to hand over all of them
	m.mu.Unlock()
	if ctx.Err() != nil && !leaving && m.returnGrace > 0 {
		m.mu.Lock()
		m.say(func(p *presence) { p.Back = m.returnGrace.Milliseconds() })
		m.mu.Unlock()
		waiting, cancel := context.WithTimeout(life, leaveStep)
		defer cancel()
		// If this fails, the shards move.
		_ = m.await(waiting, func() bool { return m.expected || m.current && len(m.mine) == 0 })
	}
	waiting, cancel := context.WithTimeout(ctx, leaveStep)
	defer cancel()
	_ = m.kept.Close(waiting) // the removal continues in the background
}

// say changes what this member announces about itself. It is called with mu held.
func (m *member) say(change func(*presence)) {
	change(&m.presence)
	m.says++
	m.broadcast()
}

// announce writes what this member announces about itself, each time it changes.
func (m *member) announce(ctx context.Context) {
	for ctx.Err() == nil && m.await(ctx, func() bool { return m.said != m.says }) == nil {
		m.mu.Lock()
		data, err := json.Marshal(m.presence)
		says := m.says
		m.mu.Unlock()
		if err == nil {
			err = m.kept.Set(ctx, data)
		}
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, zkrecipes.ErrClosed) {
				m.log.Error("shard: cannot write the state of this member", "path", m.path, "id", m.id, "error", err)
			}
			_ = session.Sleep(ctx, leaveStep) // the loop checks ctx
			continue
		}
		m.mu.Lock()
		m.said = says
		m.broadcast()
		m.mu.Unlock()
	}
}

// isDrained reports whether a member that leaves has no more shards. It is called with mu held.
func (m *member) isDrained() bool {
	return m.presence.Leaving && (m.taken || m.said == m.says && m.current) && len(m.mine) == 0 && len(m.at) == 0
}

// close keeps workers from starting.
func (m *member) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
}

// follow follows the plan. Without a current plan no worker contends for its lock.
func (m *member) follow(ctx context.Context) error {
	for view, err := range m.plan.Watch(ctx) {
		if err != nil {
			m.adopt(value.View[plan]{})
			return err
		}
		m.adopt(view)
	}
	return nil
}

// adopt applies the plan. If the plan is missing or cannot be read, everything stays as it is until the leader has
// written another one.
func (m *member) adopt(view value.View[plan]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.broadcast()
	m.current = view.Current
	if !view.Current || !view.Version.Exists() {
		return
	}
	if view.Err != nil {
		m.log.Error("shard: cannot read the plan, this member keeps its shards", "path", m.plan.Path(), "error", view.Err)
		return
	}
	m.generation = view.Version.Mzxid
	m.expected = view.Value.Away[m.id] > 0
	m.given = view.Value.Owners[m.id]
	m.assign()
}

// keepID follows the node of this member. If another session takes the ID, because this member's session ended or its
// node was deleted by hand, the ID's shards belong to that session.
func (m *member) keepID(ctx context.Context) {
	for state := range m.kept.Watch(ctx) { //nolint:errcheck // if the membership ends, the member ends too
		taken := errors.Is(state.Err, zkrecipes.ErrTaken)
		m.mu.Lock()
		if taken && !m.taken {
			m.log.Error("shard: another session has taken the id of this member, stopping its work until it has the id again",
				"path", m.path, "id", m.id, "error", recipe.Loggable(state.Err))
		}
		m.taken = taken
		m.assign()
		m.broadcast()
		m.mu.Unlock()
	}
}

// assign starts and stops workers. It is called with mu held.
func (m *member) assign() {
	m.mine = map[string]bool{}
	if !m.taken {
		for _, shard := range m.given {
			m.mine[shard] = true
			m.start(shard)
		}
	}
	m.moved = nil
	for shard := range m.at {
		if !m.mine[shard] {
			m.moved = append(m.moved, shard)
		}
	}
	slices.Sort(m.moved)
}

// await blocks until is, which it calls with mu held, returns true.
//
// Errors: the cause of ctx.
func (m *member) await(ctx context.Context, is func() bool) error {
	for {
		m.mu.Lock()
		ok, changed := is(), m.changed
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broadcast wakes all callers of await. It is called with mu held.
func (m *member) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}
