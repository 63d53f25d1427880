package shard

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// View reports which member each shard is assigned to.
type View struct {
	// Shards are the owners of all shards, sorted by the shards' names. The list is empty if there is no plan that can
	// be read.
	Shards []Owner
	// Members are sorted by seniority. The list is empty in views from [Shards.Watch].
	Members []Member
	// Generation is the ID of the transaction that wrote the plan. It grows with each plan, and is 0 without a plan.
	Generation int64
	// Err is why the plan cannot be read; nil if it can be read, or if there is no plan.
	Err error
	// Freshness is never current in a view from [Shards.Owners], because nothing follows the shards.
	zkrecipes.Freshness
}

// Member is what a member announces about itself.
type Member struct {
	// ID is the member's ID.
	ID string
	// Weight is the weight set with [WithWeight].
	Weight int
	// Leaving reports that the member is handing over its shards and will then leave.
	Leaving bool
	// Restarting reports that the member is restarting, and that its shards are reserved for it.
	Restarting bool
	// Refuses are the shards, sorted, that the member has given away because its function or the shards' locks failed.
	Refuses []string
	// Since is when the member's node was created, by the servers' clock.
	Since time.Time
}

// Owner reports which member has a shard.
type Owner struct {
	Shard string
	// Member is the ID of the member that the plan assigns the shard to; empty if the plan assigns it to none.
	Member string
	// Away reports that this member is restarting, and that the shard is reserved for it.
	Away bool
	// Holder is the member that holds the shard's lock, or is about to find out that it does; its Name is the member's
	// ID. Holder is empty if there is none, and in views from [Shards.Watch].
	Holder zkrecipes.Participant
}

// Moving reports whether the shard is being moved, because the member that holds it is not the one that the plan
// assigns it to. Use it on owners from [Shards.Owners].
func (o Owner) Moving() bool { return o.Holder.Path != "" && o.Member != o.Holder.Name }

// viewOf returns the view of a plan.
func viewOf(p plan, at value.Version, err error) View {
	view := View{Generation: at.Mzxid, Err: err}
	if err != nil {
		return view
	}
	owners := p.byShard()
	for _, shard := range p.names() {
		member := owners[shard]
		view.Shards = append(view.Shards, Owner{Shard: shard, Member: member, Away: p.Away[member] > 0})
	}
	return view
}

// Owners returns the members, and for each shard its assigned owner and its holder. Each of these is at least as recent
// as the call. Owners takes several requests for each shard and each member, at most 64 at a time. To follow the
// assignment, use [Shards.Watch] instead.
//
// Errors: context.Cause(ctx), ErrClosed, or the server's error.
func (s *Shards) Owners(ctx context.Context) (View, error) {
	at := zkrecipes.Freshness{AsOf: time.Now()}
	p, version, err := s.plan.Get(ctx)
	if err != nil && !version.Exists() {
		return View{}, err
	}
	view := viewOf(p, version, err)
	view.Freshness = at
	names := make([]string, 0, len(view.Shards))
	for _, o := range view.Shards {
		names = append(names, o.Shard)
	}
	there, err := s.group.Members(ctx)
	if err != nil {
		return view, err
	}
	view.Members = make([]Member, 0, len(there.Members))
	for i, m := range attendants(there) {
		view.Members = append(view.Members,
			Member{m.id, m.weight(), m.Leaving, m.Back > 0, m.Refuses, there.Members[i].Since})
	}
	holders, errs := s.holders(ctx, names, there.Members)
	for i, h := range holders {
		view.Shards[i].Holder = h
	}
	return view, errors.Join(errs...)
}

// holders returns the head of the queue of each shard's lock, or why that is not known. A request to release a lock
// replaces the data that names its holder, so a holder without a name has that of the only member with its session.
func (s *Shards) holders(
	ctx context.Context, shards []string, members []group.Member,
) (holders []zkrecipes.Participant, errs []error) {
	ids := make(map[int64]string, len(members))
	for _, m := range members {
		if _, several := ids[m.Session]; several {
			ids[m.Session] = ""
		} else {
			ids[m.Session] = m.ID
		}
	}
	delete(ids, 0) // of nodes that are not ephemeral
	holders, errs = make([]zkrecipes.Participant, len(shards)), make([]error, len(shards))
	session.InFlight(len(shards), func(i int) {
		lock, err := s.lock(shards[i])
		if err != nil {
			errs[i] = err
			return
		}
		queue, err := lock.Queue(ctx)
		if errs[i] = err; len(queue) > 0 {
			holders[i] = queue[0]
			holders[i].Name = cmp.Or(queue[0].Name, ids[queue[0].Session])
		}
	})
	return holders, errs
}

// Watch yields which shards the plan assigns to which members, first as it is now and then after every new plan. If the
// caller is slow, it gets the latest view, and intermediate ones are skipped. Views do not show which member holds a
// shard, which can differ: a shard that has just moved is served by its new owner only when the old one stops.
//
// If the connection is lost, or no server answers for a whole session timeout, Watch immediately yields the last view
// again, with Current set to false. When the client reconnects, Watch reads again and yields a current view.
//
// Iteration ends as described under "Conventions" in package [zkrecipes].
func (s *Shards) Watch(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for seen, err := range s.plan.Watch(ctx) {
			if err != nil {
				yield(View{}, err)
				return
			}
			view := viewOf(seen.Value, seen.Version, seen.Err)
			view.Freshness = seen.Freshness
			if !yield(view, nil) {
				return
			}
		}
	}
}
