package shard

import (
	"cmp"
	"slices"
)

// Situation is a [Strategy]'s input. It must not be modified.
type Situation struct {
	// Shards are the names of the shards to divide, sorted.
	Shards []string
	// Members are the members that may get shards, the oldest first.
	Members []Candidate
	// Owners maps each shard to the ID of the member that the last plan assigns it to. Some of these members may be gone.
	Owners map[string]string
	// Pins are the pins set with [WithPins], from shard names to member IDs. A pinned member may be absent.
	Pins map[string]string
}

// Candidate is a member that may get shards.
type Candidate struct {
	ID string
	// Weight is the weight set with [WithWeight], at least 1.
	Weight int
	// Refuses are the shards that the member has given away because its function failed; see [WithGiveUp].
	Refuses []string
}

// Strategy divides shards among members: it returns a member ID for each shard. It must be a pure function of its
// argument and must not block. If it leaves out a shard, or assigns it to an ID that is not a candidate's, the shard
// has no owner until the next plan.
type Strategy func(Situation) map[string]string

// Sticky is the default [Strategy]. A member keeps the shards that it has, up to its quota, which is its share of the
// shards by weight, rounded up or down. Only shards without an owner, and those above a quota, move. For example, if S
// shards are balanced among members of equal weight and an n-th member joins, it gets at most S/n of them, rounded up,
// and no other shard moves. If a member leaves, only its own shards move.
//
// A pin takes precedence over the quotas if its member is a candidate. A member doesn't get a shard that it refuses,
// unless all candidates refuse it. The others then divide by weight what that member cannot take, which may put them
// above their quotas. No other division under these constraints is better balanced, and applying Sticky to its own
// result has no further effect.
func Sticky(now Situation) map[string]string {
	d := newDivision(now)
	if len(d.seats) == 0 {
		return nil
	}
	d.setQuotas(len(now.Shards))
	d.place()
	for d.improve() { // the balance improves each time, so this ends
	}
	owners := make(map[string]string, len(now.Shards))
	for _, s := range d.seats {
		for _, shard := range slices.Concat(s.pinned, s.kept) {
			owners[shard] = s.ID
		}
	}
	return owners
}

// division is one call of Sticky.
type division struct {
	seats    []*seat
	refusals map[string]int // how many members refuse a shard
	free     []string       // shards without an owner
}

// seat is a candidate with the shards it has.
type seat struct {
	Candidate
	refuses      map[string]bool
	pinned, kept []string
	givable      map[*seat]int // another member may have none of what is kept from this index on
	quota        int           // its share, rounded down
	rest         int           // what rounding cuts off, as a multiple of one share of the weights
}

func (s *seat) load() int { return len(s.pinned) + len(s.kept) }

// cost is what the n-th shard of a member costs the balance.
type cost struct {
	tier            int // 0 up to the quota, 1 for the shard that rounding up adds, 2 above that
	n, weight, rest int
}

func (s *seat) cost(n int) cost {
	c := cost{n: n, weight: s.Weight, rest: s.rest}
	switch {
	case n <= s.quota:
	case n == s.quota+1 && s.rest > 0:
		c.tier = 1
	default:
		c.tier = 2
	}
	return c
}

// compare compares the loads by weight. All shards of tier 1 cost the same: it does not matter which member gets what
// rounding down leaves, and a shard that moved for it would move for nothing.
func (c cost) compare(other cost) int {
	if c.tier == 1 && other.tier == 1 {
		return 0
	}
	return cmp.Or(cmp.Compare(c.tier, other.tier), cmp.Compare(c.n*other.weight, other.n*c.weight))
}

// cheaper reports whether a shard goes to s rather than to other. What rounding down leaves goes to the member that is
// furthest below its share.
func (s *seat) cheaper(other *seat) bool {
	if other == nil {
		return true
	}
	a, b := s.cost(s.load()+1), other.cost(other.load()+1)
	return cmp.Or(a.compare(b), cmp.Compare(b.rest, a.rest)) < 0
}

// newDivision gives each shard to its pin, or lets its owner keep it.
func newDivision(now Situation) *division {
	d := &division{refusals: map[string]int{}}
	byID := make(map[string]*seat, len(now.Members))
	for _, c := range now.Members {
		s := &seat{Candidate: c, refuses: make(map[string]bool, len(c.Refuses)), givable: map[*seat]int{}}
		for _, shard := range c.Refuses {
			if !s.refuses[shard] {
				d.refusals[shard]++
			}
			s.refuses[shard] = true
		}
		byID[c.ID] = s
		d.seats = append(d.seats, s)
	}
	for _, shard := range now.Shards {
		pin, owner := byID[now.Pins[shard]], byID[now.Owners[shard]]
		switch {
		case pin != nil && d.allows(pin, shard):
			pin.pinned = append(pin.pinned, shard)
		case owner != nil && d.allows(owner, shard):
			owner.kept = append(owner.kept, shard)
		default:
			d.free = append(d.free, shard)
		}
	}
	return d
}

// allows reports whether a member may get a shard.
func (d *division) allows(s *seat, shard string) bool {
	return !s.refuses[shard] || d.refusals[shard] == len(d.seats)
}

// setQuotas divides n by weight. A member with more pins than its share keeps those, and the others divide the rest.
func (d *division) setQuotas(n int) {
	for open := slices.Clone(d.seats); ; {
		weights := 0
		for _, s := range open {
			weights += s.Weight
		}
		for _, s := range open {
			s.quota, s.rest = n*s.Weight/weights, n*s.Weight%weights
		}
		before := len(open)
		open = slices.DeleteFunc(open, func(s *seat) bool {
			if s.cost(len(s.pinned)).tier < 2 {
				return false
			}
			s.quota, s.rest = len(s.pinned), 0
			n -= s.quota
			return true
		})
		if len(open) == before {
			return
		}
	}
}

// place gives each free shard to the member where it costs the least, starting with shards that few members may get.
func (d *division) place() {
	slices.SortFunc(d.free, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.refusals[b], d.refusals[a]), cmp.Compare(a, b))
	})
	for _, shard := range d.free {
		var best *seat
		for _, s := range d.seats {
			if d.allows(s, shard) && s.cheaper(best) {
				best = s
			}
		}
		best.kept = append(best.kept, shard)
	}
	d.free = nil
}

// improve takes a shard from the member whose last shard costs the most, and gives one to a member where it costs less.
// It reports whether there were two such members.
//
// If there are none, no other division is better balanced. The moves that lead to another division form chains, and the
// next shard of a member never costs less than the one before. If the whole were better, then a single chain would be
// too. Costs depend on how many shards the members have, and not on which of them had which before. That is why Sticky
// leaves its own result unchanged.
func (d *division) improve() bool {
	var cheapest *seat
	for _, s := range d.seats {
		if s.cheaper(cheapest) {
			cheapest = s
		}
	}
	bound := cheapest.cost(cheapest.load() + 1)
	sources := slices.SortedStableFunc(slices.Values(d.seats),
		func(a, b *seat) int { return a.cost(a.load()).compare(b.cost(b.load())) })
	for _, s := range slices.Backward(sources) { // of two members with equally many, the younger one gives
		if s.cost(s.load()).compare(bound) <= 0 {
			return false
		}
		if d.relieve(s) {
			return true
		}
	}
	return false
}

// relieve takes a shard from a member if it can give one to a member where it costs less. If that member may not have
// what the first one has, there is a chain of members between them, in which each gives one of its shards to the next.
// The shortest chain moves the least.
func (d *division) relieve(from *seat) bool {
	type hop struct {
		giver *seat
		shard int // an index into what the giver keeps
	}
	var best *seat
	hops := map[*seat]hop{from: {}}
	for queue := []*seat{from}; len(queue) > 0 && len(hops) < len(d.seats); queue = queue[1:] {
		giver := queue[0]
		for _, s := range d.seats {
			if _, seen := hops[s]; seen {
				continue
			}
			i := d.lastFor(s, giver)
			if i < 0 {
				continue
			}
			hops[s] = hop{giver, i}
			queue = append(queue, s)
			if s.cheaper(best) {
				best = s
			}
		}
	}
	if best == nil || best.cost(best.load()+1).compare(from.cost(from.load())) >= 0 {
		return false
	}
	for to := best; to != from; to = hops[to].giver {
		h := hops[to]
		d.move(h.giver, h.shard, to)
	}
	return true
}

// lastFor returns the index of the last shard that the giver keeps and s may have, or -1 if there is none. It passes
// over what s refuses only once for many calls, because s may refuse thousands of shards, and each of them may move.
func (d *division) lastFor(s, giver *seat) int {
	n, known := giver.givable[s]
	if !known {
		n = len(giver.kept)
	}
	for n > 0 && !d.allows(s, giver.kept[n-1]) {
		n--
	}
	giver.givable[s] = n
	return n - 1
}

// move gives the shard at index i of what the giver keeps to another member.
func (d *division) move(giver *seat, i int, to *seat) {
	shard := giver.kept[i]
	giver.kept = slices.Delete(giver.kept, i, i+1)
	for s, n := range giver.givable {
		if n > i {
			giver.givable[s] = n - 1
		}
	}
	to.kept = append(to.kept, shard)
	for s := range to.givable {
		if d.allows(s, shard) {
			to.givable[s] = len(to.kept)
		}
	}
}
