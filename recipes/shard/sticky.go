package shard

import (
	"cmp"
	"slices"
)

// Situation is what a [Strategy] divides. It must not be changed.
type Situation struct {
	// Shards to divide, sorted.
	Shards []string
	// Members that may get shards, first the one that has been there the longest.
	Members []Candidate
	// Owners are the ids of the members to whom the last plan gives the shards. Some may be gone.
	Owners map[string]string
	// Pins are what [WithPins] says: the id of a member for a shard. The member may be away.
	Pins map[string]string
}

// Candidate is a member that may get shards.
type Candidate struct {
	ID string
	// Weight is what [WithWeight] says, at least 1.
	Weight int
	// Refuses are the shards that the member has given away because its function failed: see [WithGiveUp].
	Refuses []string
}

// Strategy divides shards among members: it returns the id of a member for each shard. It is a pure function of its argument, and
// must not wait. A shard that it leaves out, or gives to an id that is no candidate, has no owner until the next plan.
type Strategy func(Situation) map[string]string

// Sticky is the default [Strategy]. A member keeps what it has, up to its quota: its part of the shards by weight, rounded up or
// down. Only shards without an owner, and those above a quota, move. So if S shards are balanced among members of equal weight and
// the n-th joins, it gets at most S/n of them, rounded up, and no other shard moves. If a member leaves, no shard moves but its own.
//
// A pin comes before the quotas, if its member is a candidate. A member does not get a shard that it refuses, unless all
// candidates refuse it. So that others take what it refuses, a member may get more than its quota.
func Sticky(now Situation) map[string]string {
	d := newDivision(now)
	if len(d.seats) == 0 {
		return nil
	}
	for again := true; again; { // each move brings a member nearer to its quota, so this ends
		d.setQuotas(len(now.Shards))
		d.place()
		again = d.lighten()
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

// seat is a candidate with what it has.
type seat struct {
	Candidate
	refuses      map[string]bool
	pinned, kept []string
	quota        int
}

// room is how many shards are missing to the quota. It is negative above the quota.
func (s *seat) room() int { return s.quota - len(s.pinned) - len(s.kept) }

// newDivision gives each shard to its pin, or lets its owner keep it.
func newDivision(now Situation) *division {
	d := &division{refusals: map[string]int{}}
	byID := make(map[string]*seat, len(now.Members))
	for _, c := range now.Members {
		s := &seat{Candidate: c, refuses: make(map[string]bool, len(c.Refuses))}
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

// setQuotas divides n by weight. If a member has more pins than its part, it has those, and the others share the rest.
func (d *division) setQuotas(n int) {
	open := slices.Clone(d.seats)
	for {
		share(n, open)
		before := len(open)
		open = slices.DeleteFunc(open, func(s *seat) bool {
			if len(s.pinned) <= s.quota {
				return false
			}
			s.quota = len(s.pinned)
			n -= s.quota
			return true
		})
		if len(open) == before {
			return
		}
	}
}

// share sets quotas whose sum is n. What is left after rounding down goes first to members that have more anyway, because then it
// need not move, and then to those that are the furthest below their part.
func share(n int, seats []*seat) {
	weights := 0
	for _, s := range seats {
		weights += s.Weight
	}
	type part struct {
		*seat
		rest  int // of the division by the weights
		saves bool
	}
	parts := make([]part, 0, len(seats))
	left := n
	for _, s := range seats {
		s.quota = n * s.Weight / weights
		left -= s.quota
		if rest := n * s.Weight % weights; rest > 0 {
			parts = append(parts, part{s, rest, s.room() < 0})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		if a.saves != b.saves {
			if a.saves {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.rest, a.rest)
	})
	for _, p := range parts[:left] { // each rest is below the weights, so more members have one than shards are left
		p.quota++
	}
}

// lighten moves what members have above their quotas to those that have room and may get it. It reports whether anything moved.
func (d *division) lighten() (moved bool) {
	for _, s := range d.seats {
		for i := len(s.kept) - 1; i >= 0 && s.room() < 0; i-- {
			if other := d.best(s.kept[i]); other.room() > 0 {
				other.kept = append(other.kept, s.kept[i])
				s.kept = slices.Delete(s.kept, i, i+1)
				moved = true
			}
		}
	}
	return moved
}

// best returns the member with the most room among those that may get a shard.
func (d *division) best(shard string) *seat {
	var best *seat
	for _, s := range d.seats {
		if d.allows(s, shard) && (best == nil || s.room() > best.room()) {
			best = s
		}
	}
	return best
}

// place gives the free shards to the members with the most room, first those that few members may get.
func (d *division) place() {
	slices.SortFunc(d.free, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.refusals[b], d.refusals[a]), cmp.Compare(a, b))
	})
	for _, shard := range d.free {
		s := d.best(shard)
		s.kept = append(s.kept, shard)
	}
	d.free = nil
}
