package shard

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// plan is what the leader writes: the owner of each shard.
type plan struct {
	// Owners are the shards of each member, by ID, sorted.
	Owners map[string][]string `json:"owners"`
	// Nobody are the shards without an owner, sorted.
	Nobody []string `json:"nobody,omitempty"`
	// Away are the members that restart, and for how many milliseconds their shards wait for them.
	Away map[string]int64 `json:"away,omitempty"`
}

// newPlan returns the plan for shards, which must be sorted.
func newPlan(shards []string, owners map[string]string, away map[string]int64) plan {
	p := plan{Owners: map[string][]string{}, Away: away}
	for _, shard := range shards {
		if id := owners[shard]; id != "" {
			p.Owners[id] = append(p.Owners[id], shard)
		} else {
			p.Nobody = append(p.Nobody, shard)
		}
	}
	return p
}

// byShard returns the owner of each shard that has one.
func (p plan) byShard() map[string]string {
	owners := map[string]string{}
	for id, shards := range p.Owners {
		for _, shard := range shards {
			owners[shard] = id
		}
	}
	return owners
}

// names returns the names of all shards, sorted.
func (p plan) names() []string {
	names := slices.Clone(p.Nobody)
	for _, shards := range p.Owners {
		names = append(names, shards...)
	}
	slices.Sort(names)
	return slices.Compact(names) // a plan that was written by hand may name a shard twice
}

// same reports whether both plans are the same, including the order of their names.
func (p plan) same(other plan) bool {
	return maps.EqualFunc(p.Owners, other.Owners, slices.Equal[[]string]) && slices.Equal(p.Nobody, other.Nobody) &&
		maps.Equal(p.Away, other.Away)
}

// moves counts the shards whose owner in p differs from their owner in last, or that no longer have one.
func (p plan) moves(last plan) (n int) {
	owners := p.byShard()
	for shard, id := range last.byShard() {
		if owners[shard] != id {
			n++
		}
	}
	return n
}

// presence is what a member announces about itself, as the data of its node.
type presence struct {
	Weight int `json:"weight"`
	// Leaving announces that the member wants to lose its shards, and then leaves.
	Leaving bool `json:"leaving,omitempty"`
	// Back announces that the member restarts, and for how many milliseconds its shards wait for it.
	Back int64 `json:"back,omitempty"`
	// Refuses are the shards that the member has given away because its function failed, sorted.
	Refuses []string `json:"refuses,omitempty"`
}

// attendant is a member that is present.
type attendant struct {
	id string
	presence
}

// attendants returns the members of a group. A node that a client wrote by hand is a member of weight 1.
func attendants(view group.View) []attendant {
	members := make([]attendant, 0, len(view.Members))
	for _, m := range view.Members {
		a := attendant{id: m.ID}
		_ = json.Unmarshal(m.Data, &a.presence) // see above
		members = append(members, a)
	}
	return members
}

// weight returns a weight that a strategy can work with.
func (a attendant) weight() int { return min(max(1, a.Weight), maxWeight) }

// isCandidate reports whether a member may get shards, because it neither leaves nor restarts.
func (a attendant) isCandidate() bool { return !a.Leaving && a.Back == 0 }

// roster is the input of a plan.
type roster struct {
	shards   []string        // sorted
	members  []attendant     // the oldest first
	over     map[string]bool // members that restart, and have not returned in time
	complete bool            // no member has joined for a while, so no more are expected
	pins     map[string]string
	strategy Strategy
}

// next returns the plan that follows last. The plan is urgent if something waits for it: a shard that is no longer
// served, or a member that wants to leave. It is not urgent if only the balance has changed, if no member can serve, or
// if no member has a shard while members are still joining, because then all of them have just started.
func (r roster) next(last plan) (next plan, urgent bool) {
	owners, away := last.byShard(), r.away(last)
	now := Situation{Owners: owners, Pins: r.pins}
	candidates := map[string]bool{}
	for _, m := range r.members {
		if m.isCandidate() {
			candidates[m.id] = true
			now.Members = append(now.Members, Candidate{m.id, m.weight(), m.Refuses})
		}
	}
	become := make(map[string]string, len(r.shards))
	for _, shard := range r.shards {
		if id := owners[shard]; away[id] > 0 {
			become[shard] = id
		} else {
			now.Shards = append(now.Shards, shard)
		}
	}
	if len(now.Members) > 0 {
		planned := r.strategy(now)
		for _, shard := range now.Shards {
			if id := planned[shard]; candidates[id] {
				become[shard] = id
			}
		}
	}
	next = newPlan(r.shards, become, away)
	return next, r.isUrgent(last, next)
}

// maxAway is the most that [WithReturnGrace] allows, in milliseconds. A plan that was written by hand may have more.
var maxAway = maxReturnGrace.Milliseconds()

// away returns the members whose shards wait for them.
func (r roster) away(last plan) map[string]int64 {
	away, present := map[string]int64{}, map[string]bool{}
	for _, m := range r.members {
		present[m.id] = true
		if m.Back > 0 && len(last.Owners[m.id]) > 0 {
			away[m.id] = min(m.Back, maxAway)
		}
	}
	for id, wait := range last.Away {
		if wait > 0 && !present[id] && !r.over[id] && len(last.Owners[id]) > 0 {
			away[id] = min(wait, maxAway)
		}
	}
	return away
}

func (r roster) isUrgent(last, next plan) bool {
	members, serving, able := map[string]presence{}, false, false
	refused := map[[2]string]bool{} // by member and shard: there may be thousands, and each of them may move
	for _, m := range r.members {
		members[m.id] = m.presence
		for _, shard := range m.Refuses {
			refused[[2]string{m.id, shard}] = true
		}
		serving = serving || len(last.Owners[m.id]) > 0
		able = able || m.isCandidate()
	}
	if !serving && (!r.complete || !able) {
		return false
	}
	if !maps.Equal(last.Away, next.Away) || !slices.Equal(last.names(), r.shards) {
		return true
	}
	owners := next.byShard()
	for shard, id := range last.byShard() {
		m, present := members[id]
		if owners[shard] != id && (!present || m.Leaving || refused[[2]string{id, shard}]) {
			return true
		}
	}
	return len(next.Nobody) < len(last.Nobody)
}
