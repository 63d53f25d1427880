package shard

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/value"
)

func TestRoster_Next(t *testing.T) {
	is := func(id string) attendant { return attendant{id, presence{Weight: 1}} }
	leaving := attendant{"x", presence{Weight: 1, Leaving: true}}
	restarts := attendant{"x", presence{Weight: 1, Back: 5000}}
	ab := []string{"a", "b"}
	owned := func(x, y []string) plan {
		p := plan{Owners: map[string][]string{}, Away: map[string]int64{}}
		if x != nil {
			p.Owners["x"] = x
		}
		if y != nil {
			p.Owners["y"] = y
		}
		return p
	}
	away := func(p plan, wait int64) plan {
		p.Away = map[string]int64{"x": wait}
		return p
	}
	for name, test := range map[string]struct {
		members []attendant
		over    string // a member whose time is over; "*" if all members have joined
		last    plan
		want    plan
		urgent  bool
	}{
		"the first plan waits for more": {[]attendant{is("x")}, "", plan{}, owned(ab, nil), false},
		"a balance waits":               {[]attendant{is("x"), is("y")}, "", owned(ab, nil), owned(ab[:1], ab[1:]), false},
		"nothing to do": {
			[]attendant{is("x"), is("y")},
			"", owned(ab[:1], ab[1:]),
			owned(ab[:1], ab[1:]), false,
		},
		"a loss does not wait": {[]attendant{is("y")}, "", owned(ab[:1], ab[1:]), owned(nil, ab), true},
		"if all are lost, more may come": {
			[]attendant{is("z")},
			"", owned(ab[:1], ab[1:]),
			plan{Owners: map[string][]string{"z": ab}},
			false,
		},
		"if no more come, they have it now": {
			[]attendant{is("z")},
			"*", owned(ab[:1], ab[1:]),
			plan{Owners: map[string][]string{"z": ab}},
			true,
		},
		"the first plan, and no more come": {[]attendant{is("x")}, "*", plan{}, owned(ab, nil), true},
		"nobody is there any more":         {nil, "*", owned(ab, nil), plan{Nobody: ab}, false},
		"the only one that is there goes": {
			[]attendant{{"z", presence{Weight: 1, Leaving: true}}},
			"*",
			owned(ab, nil),
			plan{Nobody: ab},
			false,
		},
		"the only one that is there restarts": {
			[]attendant{{"z", presence{Weight: 1, Back: 1}}},
			"*",
			owned(ab, nil),
			plan{Nobody: ab},
			false,
		},
		"it restarts for too long": {
			[]attendant{{"x", presence{Weight: 1, Back: 1 << 60}}},
			"",
			owned(ab, nil), away(owned(ab, nil), 3600_000), true,
		},
		"it is away for too long": {
			[]attendant{is("y")},
			"", away(owned(ab[:1], ab[1:]), 1<<60),
			away(owned(ab[:1], ab[1:]), 3600_000), true,
		},
		"one that leaves is waiting": {
			[]attendant{leaving, is("y")},
			"", owned(ab[:1], ab[1:]),
			owned(nil, ab), true,
		},
		"the last one leaves":          {[]attendant{leaving}, "", owned(ab, nil), plan{Nobody: ab}, true},
		"one that left without shards": {[]attendant{leaving, is("y")}, "", owned(nil, ab), owned(nil, ab), false},
		"one says that it restarts": {
			[]attendant{restarts, is("y")},
			"", owned(ab[:1], ab[1:]),
			away(owned(ab[:1], ab[1:]), 5000), true,
		},
		"one that has nothing restarts": {[]attendant{restarts, is("y")}, "", owned(nil, ab), owned(nil, ab), false},
		"it is away": {
			[]attendant{is("y")},
			"", away(owned(ab[:1], ab[1:]), 5000),
			away(owned(ab[:1], ab[1:]), 5000), false,
		},
		"it is back": {
			[]attendant{is("y"), is("x")},
			"",
			away(owned(ab[:1], ab[1:]), 5000), owned(ab[:1], ab[1:]), true,
		},
		"its time is over": {[]attendant{is("y")}, "x", away(owned(ab[:1], ab[1:]), 5000), owned(nil, ab), true},
		"a shard that refuses": {
			[]attendant{{"x", presence{Weight: 1, Refuses: ab[:1]}}, is("y")},
			"", owned(ab[:1], ab[1:]), owned(ab[1:], ab[:1]), true,
		},
		"a shard that nobody had": {
			[]attendant{is("x"), is("y")},
			"",
			plan{Owners: map[string][]string{"x": ab[:1]}, Nobody: ab[1:]},
			owned(ab[:1], ab[1:]), true,
		},
		"a shard that is new": {[]attendant{is("x"), is("y")}, "", owned(ab[:1], nil), owned(ab[:1], ab[1:]), true},
		"a shard that is gone": {
			[]attendant{is("x"), is("y")},
			"",
			owned([]string{"a", "c"}, ab[1:]), owned(ab[:1], ab[1:]), true,
		},
		"a member that a hand wrote has a weight": {
			[]attendant{{"x", presence{}}},
			"", owned(ab, nil),
			owned(ab, nil), false,
		},
		"a shard that a hand gave to two is of one": {
			[]attendant{is("x"), is("y")},
			"", owned(ab, ab[1:]),
			owned(ab[:1], ab[1:]), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := roster{
				shards: ab, members: test.members, over: map[string]bool{test.over: true},
				complete: test.over == "*", strategy: Sticky,
			}
			next, urgent := r.next(test.last)
			require.True(t, next.same(test.want), "%v", next)
			require.Equal(t, test.urgent, urgent)
		})
	}
}

// An assignment that makes no sense is ignored.
func TestRoster_Next_StrategyThatErrs(t *testing.T) {
	r := roster{
		shards: []string{"a", "b"}, members: []attendant{{"x", presence{Weight: 1}}},
		strategy: func(Situation) map[string]string {
			return map[string]string{"a": "stranger", "other": "x"}
		},
	}
	next, _ := r.next(plan{})
	require.Equal(t, plan{Owners: map[string][]string{}, Nobody: []string{"a", "b"}, Away: map[string]int64{}}, next)
}

// A weight that a client wrote by hand used to make the quotas overflow.
func TestRoster_Next_WeightWrittenByHand(t *testing.T) {
	r := roster{shards: []string{"a", "b", "c"}, strategy: Sticky, members: []attendant{
		{"x", presence{Weight: math.MaxInt}}, {"y", presence{Weight: math.MaxInt}}, {"z", presence{Weight: -1}},
	}}
	next, _ := r.next(plan{})
	require.Equal(t, 3, len(next.byShard()))
}

// The leader sees a view that was read before it wrote, after it has written.
func TestLeader_SeePlan_OfBeforeItsOwn_IsNotTheLast(t *testing.T) {
	at := func(mzxid int64) value.Version { return value.Version{Czxid: 1, Mzxid: mzxid} }
	old, own := plan{Owners: map[string][]string{"a": {"s"}}}, plan{Owners: map[string][]string{"b": {"s"}}}
	view := func(p plan, mzxid int64) (v value.View[plan]) {
		v.Value, v.Version, v.Current = p, at(mzxid), true
		return v
	}
	l := &leader{}
	l.seePlan(view(old, 5))
	require.Equal(t, old, l.last)
	l.learn(own, at(7), nil)
	l.seePlan(view(old, 5))
	require.Equal(t, own, l.last)
	l.seePlan(view(old, 9))
	require.Equal(t, old, l.last)
}
