package shard

import (
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Tracer observes the shards of this process and the plans that it writes; see [WithTracer]. Nil hooks are not called.
// The module zkprom provides a Tracer that collects metrics. To observe the shards' locks and the leader's election,
// use the client's tracers; see [zkrecipes.Tracer].
//
// A hook must return quickly, must not panic, and must be safe for concurrent use.
type Tracer struct {
	// Change is called after each change to a shard's state, on the goroutine that works on the shard. Each shard's
	// changes are reported in order.
	Change func(c Change)
	// Plan is called when this member, as the leader, has written a plan.
	Plan func(p Plan)
}

// WithTracer sets a tracer for the shards; by default there is none. If you pass several, each of them is called.
func WithTracer(t *Tracer) Option {
	return func(c *config) error {
		if t == nil || t.Change == nil && t.Plan == nil {
			return errors.New("tracer: all hooks are nil: want at least one")
		}
		c.tracers = append(c.tracers, t)
		return nil
	}
}

// State is a shard's state within a member.
type State string

// The states, as metrics name them.
const (
	// StateNone: the shard is not assigned to this member.
	StateNone State = "none"
	// StateWaiting: the plan assigns the shard to the member, but the member does not hold the shard's lock yet.
	StateWaiting State = "waiting"
	// StateOwned: the member holds the shard's lock and runs the function.
	StateOwned State = "owned"
)

// Change is one change to a shard's state within a member.
type Change struct {
	// Name is the name set by WithTracerName; empty by default.
	Name string
	// Path is the shards' path, without the chroot.
	Path string
	// Member is the member's ID, and Shard the shard's name.
	Member, Shard string
	// From and To are the states before and after.
	From, To State
	// At is when the state changed, and Lasted is how long the previous state lasted, or 0 if that was StateNone. The wait
	// before StateOwned is an upper bound on how long the shard has been without an owner since the plan, or since this
	// member lost it. If the shard moves away from a working member, that member still owns it for most of the wait.
	At     time.Time
	Lasted time.Duration
	// Token is the hold's token if To is StateOwned; otherwise 0.
	Token zkrecipes.Token
	// Err is why the shard is no longer owned: ErrMoved, a [*zkrecipes.LostError], the cause of Run's context, or the
	// reason why the member gives the shard up. It is nil if To is StateOwned, and when the plan assigns the shard to the
	// member.
	Err error
}

// Plan describes a plan that this member wrote as the leader.
type Plan struct {
	// Name and Path are as in [Change].
	Name, Path string
	// Shards and Members are how many shards and members there are.
	Shards, Members int
	// Moves is how many shards the plan takes away from members that had them.
	Moves int
	// Nobody is how many shards have no owner in the plan.
	Nobody int
}

// traced notifies the tracers of one shard. Only the goroutine of its worker uses it.
type traced struct {
	member *member
	shard  string
	now    State
	since  time.Time
}

// become reports that the state has changed, and why.
func (t *traced) become(to State, token zkrecipes.Token, err error) {
	if to == t.now {
		return
	}
	c := Change{
		Name: t.member.tracerName, Path: t.member.path, Member: t.member.id, Shard: t.shard,
		From: t.now, To: to, At: time.Now(), Token: token, Err: err,
	}
	if c.From != StateNone {
		c.Lasted = c.At.Sub(t.since)
	}
	t.now, t.since = to, c.At
	for _, tracer := range t.member.tracers {
		if tracer.Change != nil {
			tracer.Change(c)
		}
	}
}

// tellPlan reports a plan that this leader has written.
func (l *leader) tellPlan(p plan, moves int) {
	for _, tracer := range l.tracers {
		if tracer.Plan != nil {
			tracer.Plan(Plan{
				Name: l.tracerName, Path: l.path, Shards: len(p.names()), Members: len(l.members), Moves: moves,
				Nobody: len(p.Nobody),
			})
		}
	}
}
