package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// numbered returns n names, sorted.
func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return names
}

func candidates(ids ...string) []Candidate {
	var list []Candidate
	for _, id := range ids {
		list = append(list, Candidate{ID: id, Weight: 1})
	}
	return list
}

// moved counts the shards whose owner has changed.
func moved(before, after map[string]string) (n int) {
	for shard, id := range after {
		if before[shard] != id {
			n++
		}
	}
	return n
}

// loads counts the shards of each member.
func loads(owners map[string]string) map[string]int {
	n := map[string]int{}
	for _, id := range owners {
		n[id]++
	}
	return n
}

func spread(owners map[string]string, members []Candidate) int {
	n := loads(owners)
	least, most := len(owners), 0
	for _, m := range members {
		least, most = min(least, n[m.ID]), max(most, n[m.ID])
	}
	return most - least
}

func ceil(a, b int) int { return (a + b - 1) / b }

func TestSticky_Tables(t *testing.T) {
	owned := func(text string) map[string]string { // "a:x b:y"
		owners := map[string]string{}
		for pair := range strings.FieldsSeq(text) {
			shard, id, _ := strings.Cut(pair, ":")
			owners[shard] = id
		}
		return owners
	}
	weigh := func(id string, weight int, refuses ...string) Candidate { return Candidate{id, weight, refuses} }
	abcd := []string{"a", "b", "c", "d"}
	for name, test := range map[string]struct {
		now  Situation
		want string
	}{
		"nobody is there":           {Situation{Shards: abcd, Owners: owned("a:x")}, ""},
		"no shards":                 {Situation{Members: candidates("x")}, ""},
		"one takes all":             {Situation{Shards: abcd, Members: candidates("x")}, "a:x b:x c:x d:x"},
		"the oldest gets the first": {Situation{Shards: []string{"a"}, Members: candidates("y", "x")}, "a:y"},
		"what is there stays": {Situation{
			Shards: abcd, Members: candidates("x", "y"),
			Owners: owned("a:x b:y c:x d:y"),
		}, "a:x b:y c:x d:y"},
		"the last ones of the fullest move": {Situation{
			Shards: abcd, Members: candidates("x", "y"),
			Owners: owned("a:x b:x c:x d:x"),
		}, "a:x b:x c:y d:y"},
		"those of a lost one move": {Situation{
			Shards: abcd, Members: candidates("x", "y"),
			Owners: owned("a:x b:z c:z d:y"),
		}, "a:x b:x c:y d:y"},
		"a shard that is gone": {Situation{
			Shards: abcd[:2], Members: candidates("x", "y"),
			Owners: owned("a:x b:x c:y d:y"),
		}, "a:x b:y"},
		"by weight": {Situation{
			Shards:  abcd,
			Members: []Candidate{weigh("x", 3), weigh("y", 1)},
		}, "a:x b:x c:x d:y"},
		"a weight of nearly nothing": {Situation{
			Shards:  abcd,
			Members: []Candidate{weigh("x", 1), weigh("y", 1000)},
		}, "a:y b:y c:y d:y"},
		"a pin": {
			Situation{
				Shards: abcd, Members: candidates("x", "y"), Owners: owned("a:x b:x c:y d:y"),
				Pins: owned("d:x"),
			}, "a:x b:y c:y d:x",
		},
		"the pin of one who is away": {Situation{Shards: abcd[:1], Members: candidates("x"), Pins: owned("a:z")}, "a:x"},
		"more pins than a quota": {Situation{
			Shards: abcd, Members: candidates("x", "y", "z"),
			Pins: owned("a:z b:z c:z"),
		}, "a:z b:z c:z d:x"},
		"pins of another count before quotas": {
			Situation{
				Shards: []string{"a", "b", "c", "d", "e", "f"}, Members: []Candidate{weigh("x", 1), weigh("y", 3), weigh("z", 1)},
				Owners: owned("a:x b:y"), Pins: owned("c:z d:z e:z f:z"),
			}, "a:x b:y c:z d:z e:z f:z",
		},
		"a refusal": {
			Situation{
				Shards: abcd, Members: []Candidate{weigh("x", 1, "a"), weigh("y", 1)},
				Owners: owned("a:x b:x c:y d:y"),
			}, "a:y b:x c:y d:x",
		},
		"refused by all": {Situation{
			Shards:  abcd[:1],
			Members: []Candidate{weigh("x", 1, "a"), weigh("y", 1, "a")}, Owners: owned("a:y"),
		}, "a:y"},
		"a pin that is refused": {Situation{
			Shards: abcd[:1], Members: []Candidate{weigh("x", 1, "a"), weigh("y", 1)},
			Pins: owned("a:x"),
		}, "a:y"},
		"more than a quota": {Situation{
			Shards:  abcd[:2],
			Members: []Candidate{weigh("x", 1, "a", "b"), weigh("y", 1)},
		}, "a:y b:y"},
		"the one that may move": {Situation{
			Shards: abcd[:2], Members: []Candidate{weigh("x", 1, "b"), weigh("y", 1)},
			Owners: owned("a:y b:y"),
		}, "a:x b:y"},
		"refused twice by one": {Situation{
			Shards:  abcd[:1],
			Members: []Candidate{weigh("x", 1, "a", "a"), weigh("y", 1)},
		}, "a:y"},
		"others have room beside one that refuses": {
			Situation{
				Shards:  abcd[:2],
				Members: []Candidate{weigh("w", 1), weigh("x", 1, "a", "b"), weigh("y", 1), weigh("z", 1)},
			}, "a:w b:y",
		},
		"by way of another": {
			Situation{
				Shards: abcd[:3], Members: []Candidate{weigh("x", 1, "c"), weigh("y", 1), weigh("z", 1, "a", "b")},
				Owners: owned("a:x b:x c:y"),
			}, "a:x b:y c:z",
		},
		"what one refuses, by weight": {
			Situation{Shards: abcd, Members: []Candidate{
				weigh("x", 3), weigh("y", 1),
				weigh("z", 4, "a", "b", "c", "d"),
			}}, "a:x b:x c:y d:x",
		},
		"an owner twice as heavy": {Situation{
			Shards: abcd, Members: []Candidate{weigh("x", 2), weigh("y", 1)},
			Owners: owned("a:x b:x c:x d:y"),
		}, "a:x b:x c:x d:y"},
	} {
		t.Run(name, func(t *testing.T) {
			if want, got := owned(test.want), Sticky(test.now); len(want)+len(got) > 0 {
				require.Equal(t, want, got)
			}
		})
	}
}

// TestSticky_Moves plays joins and leaves of members of equal weight. No plan moves more than necessary.
func TestSticky_Moves(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		now := Situation{Shards: numbered("s", 1+random.IntN(200))}
		all := len(now.Shards)
		for step := range 30 {
			before := now.Owners
			members := len(now.Members)
			if members == 0 || random.IntN(2) == 0 {
				now.Members = append(slices.Clone(now.Members), candidates(fmt.Sprintf("m%d", step))...)
				now.Owners = Sticky(now)
				if members > 0 {
					require.LessOrEqual(t, moved(before, now.Owners), ceil(all, members+1), "seed %d, step %d: a join", seed, step)
					n := loads(now.Owners)[fmt.Sprintf("m%d", step)]
					require.Equal(t, n, moved(before, now.Owners), "seed %d, step %d: only the new one gets shards", seed, step)
				}
			} else {
				gone := random.IntN(members)
				id := now.Members[gone].ID
				now.Members = slices.Delete(slices.Clone(now.Members), gone, gone+1)
				now.Owners = Sticky(now)
				if members > 1 {
					require.Equal(t, loads(before)[id], moved(before, now.Owners), "seed %d, step %d: a leave", seed, step)
				}
			}
			if len(now.Members) > 0 {
				require.Len(t, now.Owners, all)
				require.LessOrEqual(t, spread(now.Owners, now.Members), 1, "seed %d, step %d", seed, step)
				require.Equal(t, now.Owners, Sticky(now), "seed %d, step %d: nothing has changed", seed, step)
			}
		}
	}
}

// A leader that computes for minutes repairs nothing. A member that refuses thousands of shards must not make each
// shard that moves as expensive as a plan, which takes a thousand times as long.
func TestSticky_ManyRefusals(t *testing.T) {
	now := Situation{Shards: numbered("s", 30_000), Owners: map[string]string{}}
	for i, shard := range now.Shards {
		now.Owners[shard] = fmt.Sprint("m", i%5)
	}
	now.Members = candidates("m0", "m1", "m2", "m3", "m4", "sick", "new")
	plan := func(refused []string) (n map[string]int, took time.Duration) {
		now.Members[5].Refuses = refused
		began := time.Now()
		owners := Sticky(now)
		return loads(owners), time.Since(began)
	}
	_, usual := plan(nil)
	for name, tt := range map[string]struct {
		refused []string
		sharing int
	}{"all": {now.Shards, 6}, "half of them": {now.Shards[len(now.Shards)/2:], 7}} {
		n, took := plan(tt.refused)
		require.GreaterOrEqual(t, n["new"], len(now.Shards)/tt.sharing, name)
		require.Less(t, took, 300*usual, name)
	}
}

// costs returns the cost of each shard to the balance, the highest first.
func (d *division) costs(owners map[string]string) []cost {
	var all []cost
	n := map[string]int{}
	for _, id := range owners {
		i := slices.IndexFunc(d.seats, func(s *seat) bool { return s.ID == id })
		n[id]++
		all = append(all, d.seats[i].cost(n[id]))
	}
	slices.SortFunc(all, func(a, b cost) int { return b.compare(a) })
	return all
}

// TestSticky_Constrained plays small situations with refusals and pins. No other division that obeys them is better
// balanced, and the plan that follows from a plan is the same. One in fifty used to move a shard when Sticky was
// applied to its own result.
func TestSticky_Constrained(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		now := Situation{Shards: numbered("s", 1+random.IntN(5)), Owners: map[string]string{}, Pins: map[string]string{}}
		ids := numbered("m", 1+random.IntN(4))
		for _, id := range ids {
			c := Candidate{ID: id, Weight: 1 + random.IntN(3)*random.IntN(4)}
			for _, shard := range now.Shards {
				if random.IntN(3) == 0 {
					c.Refuses = append(c.Refuses, shard)
				}
			}
			now.Members = append(now.Members, c)
		}
		member := func() string { return ids[random.IntN(len(ids))] }
		for _, shard := range now.Shards {
			if random.IntN(4) > 0 {
				now.Owners[shard] = member()
			}
			if random.IntN(10) == 0 {
				now.Pins[shard] = member()
			}
		}
		owners := Sticky(now)
		d := newDivision(now)
		d.setQuotas(len(now.Shards))
		best := d.costs(owners)
		other := map[string]string{}
		var try func(shards []string)
		try = func(shards []string) {
			if len(shards) == 0 {
				require.LessOrEqual(t, slices.CompareFunc(best, d.costs(other), cost.compare), 0,
					"seed %d: %v, and not %v", seed, owners, other)
				return
			}
			for _, s := range d.seats {
				if pin := d.seat(now.Pins[shards[0]]); d.allows(s, shards[0]) &&
					(pin == nil || pin == s || !d.allows(pin, shards[0])) {
					other[shards[0]] = s.ID
					try(shards[1:])
				}
			}
		}
		try(now.Shards)
		now.Owners = owners
		require.Equal(t, owners, Sticky(now), "seed %d: a plan that follows on itself", seed)
	}
}

func (d *division) seat(id string) *seat {
	if i := slices.IndexFunc(d.seats, func(s *seat) bool { return s.ID == id }); i >= 0 {
		return d.seats[i]
	}
	return nil
}

// FuzzSticky divides whatever it is given: each shard has one owner that may have it, quotas hold where nothing is
// refused or pinned, and the plan that follows from a plan is the same.
func FuzzSticky(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint8(3))
	f.Add(uint64(2), uint8(200), uint8(17))
	f.Add(uint64(3), uint8(3), uint8(30))
	f.Fuzz(func(t *testing.T, seed uint64, shards, members uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		now := Situation{Shards: numbered("s", int(shards)), Owners: map[string]string{}, Pins: map[string]string{}}
		ids := numbered("m", int(members))
		constrained := random.IntN(2) == 0
		weights := 0
		for _, id := range ids {
			c := Candidate{ID: id, Weight: 1 + random.IntN(5)}
			for _, shard := range now.Shards {
				if constrained && random.IntN(4) == 0 {
					c.Refuses = append(c.Refuses, shard)
				}
			}
			weights += c.Weight
			now.Members = append(now.Members, c)
		}
		for _, shard := range now.Shards {
			if random.IntN(3) > 0 && len(ids) > 0 {
				now.Owners[shard] = ids[random.IntN(len(ids))]
			}
			if constrained && random.IntN(10) == 0 && len(ids) > 0 {
				now.Pins[shard] = ids[random.IntN(len(ids))]
			}
		}
		before := maps.Clone(now.Owners)
		owners := Sticky(now)
		require.Equal(t, before, now.Owners, "what it is given is not its own")
		if len(ids) == 0 {
			require.Empty(t, owners)
			return
		}
		require.Len(t, owners, len(now.Shards))
		refusals := map[string]int{}
		for _, m := range now.Members {
			for _, shard := range m.Refuses {
				refusals[shard]++
			}
		}
		n := loads(owners)
		for _, m := range now.Members {
			if !constrained {
				share := len(now.Shards) * m.Weight
				require.GreaterOrEqual(t, n[m.ID], share/weights)
				require.LessOrEqual(t, n[m.ID], ceil(share, weights))
			}
			for _, shard := range m.Refuses {
				require.False(t, owners[shard] == m.ID && refusals[shard] < len(ids), "%s has %s, which it refuses", m.ID, shard)
			}
		}
		for shard, id := range now.Pins {
			m := slices.IndexFunc(now.Members, func(c Candidate) bool { return c.ID == id })
			if !slices.Contains(now.Members[m].Refuses, shard) {
				require.Equal(t, id, owners[shard], "a pin")
			}
		}
		now.Owners = owners
		require.Equal(t, owners, Sticky(now), "a plan that follows on itself")
	})
}
