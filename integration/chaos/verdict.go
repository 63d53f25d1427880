package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// writer is the weight of a writer. It is larger than the number of readers.
const writer = 1 << 20

// judge checks everything once the run is over.
func (r *run) judge(took time.Duration, p *past) *Report {
	rep := &Report{
		Seed: r.Seed, Took: took, Session: r.Session, Tick: r.Tick, Servers: r.Kerberos.String(), Faults: map[Kind]int{},
		Operations: map[string]Operations{},
		Losses:     map[string]int{}, Sets: map[string]SetResult{}, Margins: map[Kind]Margins{},
		HandOver: map[string]Durations{}, Follows: map[string]Follows{}, Linear: map[string]Linear{}, Stills: r.stills,
	}
	for _, err := range r.trouble {
		rep.violated("%v", err)
	}
	for _, rd := range r.rounds {
		rep.Faults[rd.Kind]++
	}
	if p != nil {
		rep.Unsettled = p.unknown
	}
	t := &trial{rep, r.history, p, r.rounds, r.Session, max(0, r.Limit-3*r.Session), r.Pictures}
	for _, g := range r.Groups {
		if _, follows := followers[g.Recipe]; follows {
			t.judge(g)
		} else {
			r.lock(rep, g)
		}
		for _, s := range shards(g) {
			r.lock(rep, s)
		}
	}
	rep.sort()
	return rep
}

// lock judges one lock. A shard has one as well.
func (r *run) lock(rep *Report, g Group) {
	spans := r.history.spans(g.Recipe)
	limit := weigh(spans, g)
	r.count(rep, g, spans)
	r.exclusion(rep, g, spans, limit)
	r.margins(rep, spans, limit)
	if g.Recipe == "election" || g.Recipe == "mutex" {
		handOvers(rep, spans)
	}
	if g.Recipe == "try" {
		if err := tries(r.history.operations(g.Recipe), spans, r.rounds); err != nil {
			rep.violated("%s: %v", g.Recipe, err)
		}
	}
	for _, set := range []string{resource.Fenced, "attentive", "deaf"} {
		rep.set(g.Recipe, set, r.resource.Set(g.Recipe+"/"+set), spans)
	}
}

// weigh gives writers their weight, and returns the limit of the group.
func weigh(spans []span, g Group) int {
	if g.Recipe != "rwlock" {
		return g.Limit
	}
	for i := range spans {
		if !spans[i].Read {
			spans[i].Weight = writer
		}
	}
	return writer
}

func (r *run) count(rep *Report, g Group, spans []span) {
	o := rep.Operations[recipe(g.Recipe)]
	o.Holds += len(spans)
	for _, op := range r.history.operations(g.Recipe) {
		o.Calls++
		if op.answer.Kind == check.Failed {
			o.Busy++
		}
	}
	for _, s := range spans {
		if s.end == endReleased && s.reason == "" {
			continue
		}
		o.Lost++
		how := s.end
		if s.reason != "" {
			how += " (" + s.reason + ")"
		}
		rep.Losses[how]++
	}
	rep.Operations[recipe(g.Recipe)] = o
}

func (r *run) exclusion(rep *Report, g Group, spans []span, limit int) {
	if err := check.Exclusion(holds(spans), limit); err != nil {
		rep.violated("%s: %v", g.Recipe, err)
	}
	if err := check.Order(holds(spans), limit); err != nil {
		rep.violated("%s: %v", g.Recipe, err)
	}
}

// margins measures the time from the end of each lost hold to the next grant. By contract C2 (docs/design.md) it is
// never negative for a process that runs. Holds that ended by a kill or by an operator have no such promise: for them
// only the time from the fault to the next grant is reported.
func (r *run) margins(rep *Report, spans []span, limit int) {
	for _, s := range spans {
		rd, found := r.during(s)
		if !found || s.end == endReleased {
			continue
		}
		next, found := successor(spans, s, limit)
		if !found {
			continue
		}
		margin := time.Duration(next.From - s.To)
		m := rep.Margins[rd.Kind]
		switch s.end {
		case endLost:
			m.Told = append(m.Told, margin)
			if margin < 0 {
				rep.violated("%s: C2: %v was told of its loss %v after %v was granted (round %d, %s)", s.group, s.Hold, -margin,
					next.Hold, rd.Number, rd.Kind)
			}
		case endFrozen:
			m.Frozen = append(m.Frozen, margin)
			if margin < 0 {
				rep.violated("%s: C2: %v ended %v after %v was granted (round %d, %s)", s.group, s.Hold, -margin, next.Hold,
					rd.Number, rd.Kind)
			}
		}
		rep.Margins[rd.Kind] = m
		if slices.Contains(rd.victims, process(s.Client)) {
			after := "after " + string(rd.Kind)
			rep.HandOver[after] = append(rep.HandOver[after], time.Duration(next.From-rd.Injected))
		}
	}
}

// during finds the round in which a hold ended.
func (r *run) during(s span) (round, bool) {
	for _, rd := range r.rounds {
		if s.To >= rd.Injected && s.To <= rd.Served {
			return rd, true
		}
	}
	return round{}, false
}

// handOvers measures the time from a release to the next grant in the queue.
func handOvers(rep *Report, spans []span) {
	for i := range len(spans) - 1 {
		s, next := spans[i], spans[i+1]
		if s.end == endReleased && !s.Lost && next.Called < s.To {
			rep.HandOver["after release"] = append(rep.HandOver["after release"], time.Duration(next.From-s.To))
		}
	}
}

func (rep *Report) violated(format string, args ...any) {
	rep.Violations = append(rep.Violations, fmt.Sprintf(format, args...))
}

func (rep *Report) set(group, name string, set *check.Set, spans []span) {
	updates := set.Updates()
	if len(updates) == 0 {
		return
	}
	lost := check.LostUpdates(updates)
	kind := name
	if recipe(group) != group {
		kind = recipe(group) + ", " + name
	}
	res := rep.Sets[kind]
	res.Updates += len(updates)
	res.Lost += len(lost)
	res.Refused += set.Refused()
	for _, l := range lost {
		if res.By == nil {
			res.By = map[string]int{}
		}
		res.By[overstayed(spans, l)]++
	}
	rep.Sets[kind] = res
	if name == resource.Fenced && len(lost) > 0 {
		rep.violated("%s: %d updates lost behind a fence, such as: %v", group, len(lost), lost[0])
	}
	done := map[string]bool{}
	for _, u := range updates {
		if done[u.Element] {
			rep.violated("%s: the update %s is there twice", group, u.Element)
		}
		done[u.Element] = true
	}
}

// overstayed reports how the hold of the later of two writers had ended: "released" if neither was late.
func overstayed(spans []span, l check.LostUpdate) string {
	for _, s := range spans {
		if (s.Token == l.Lost.Token || s.Token == l.By.Token) && s.end != endReleased {
			return s.end
		}
	}
	return endReleased
}
