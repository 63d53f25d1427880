package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// contender is one node in the queue, according to the log of the server.
type contender struct {
	path, label string
	session     int64
	born, gone  int64 // zxids; gone is 0 while the node exists
	bornAt      time.Duration
	goneAt      time.Duration
	byHand      string // the fault that deleted it; empty if its own session did, or ended by itself
	hold        *check.Hold
}

// judge checks each grant by the log of the server, which has the order of all transactions:
//
//   - Ahead: when a contender is granted, no other is ahead of it, except readers ahead of a reader, and contenders
//     of its own session whose holds are over.
//   - Turn: if the contender was deleted by hand before the grant, none was ahead of it at some earlier moment, unless
//     its client lost the watch that would have reported this. (Another waiter may have set the one on the predecessor
//     again since then.)
//   - Known: no hold begins on a contender that was deleted by hand before its client's connection came up, unless
//     that client's server was behind.
//   - Over: a hold is over before its contender is removed, by release or by the end of the session.
//   - Told: if the contender was deleted by hand, the hold is over as soon as its client can know. Time in which a
//     fault makes the client deaf does not count.
//   - No two holds overlap, where a hold counts until its contender was deleted by hand. Any overlap after that is
//     excused, and counted.
//   - Tokens grow, and grants follow the queue (check.Order).
//   - Nothing is left behind, and everyone was served (serveAll).
func (r *relay) judge(all *tally) {
	r.requireNothingLeft(r.operator)
	holds, err := r.rec.Holds()
	require.NoError(r.t, err)
	slices.SortFunc(holds, func(a, b check.Hold) int { return cmp.Compare(a.From, b.From) })
	contenders := r.sweep(holds)
	var cut []check.Hold
	for i := range holds {
		h, c := holds[i], contenders[int64(holds[i].Token)]
		require.NotNil(r.t, c, "%v: no such contender", h)
		r.judgeKnown(h, c)
		r.judgeEnd(h, c)
		if c.byHand != "" {
			h.To, h.Lost = min(h.To, max(h.From, r.stampOf(c.gone))), true
		}
		cut = append(cut, h)
	}
	r.excuse(holds, contenders, all)
	limit := 1
	if r.recipe.rival != r.recipe {
		cut, limit = check.ReadWrite(cut)
	}
	require.NoError(r.t, check.Exclusion(cut, limit))
	require.NoError(r.t, check.Order(cut, limit))
	all.add(holds, r.injected)
}

// stampOf returns the first stamp at which the transaction had been applied.
func (r *relay) stampOf(zxid int64) int64 {
	stamp, _ := slices.BinarySearchFunc(r.marks, zxid, func(m mark, zxid int64) int { return cmp.Compare(m.zxid, zxid) })
	return int64(stamp)
}

// sweep walks the log and the grants in parallel, and checks who was ahead at each grant. It returns the contenders by
// their czxid, which is the token.
func (r *relay) sweep(holds []check.Hold) map[int64]*contender {
	contenders, there, byPath := map[int64]*contender{}, map[*contender]bool{}, map[string]*contender{}
	var late []*contender // granted after their nodes had been deleted
	log := r.srv.History()
	apply := func(upTo int64) {
		for len(log) > 0 && (log[0].Zxid <= upTo || upTo < 0) {
			for _, x := range log[0].Changes {
				switch {
				case !strings.HasPrefix(x.Path, path+"/"):
				case x.Kind == zktest.ChangeCreate:
					c := &contender{path: x.Path, label: log[0].Client, session: x.Owner, born: log[0].Zxid}
					c.bornAt = log[0].Time.Sub(r.start)
					contenders[c.born], byPath[c.path], there[c] = c, c, true
				case x.Kind == zktest.ChangeDelete:
					c := byPath[x.Path]
					r.gone(c, log[0])
					delete(there, c)
				}
			}
			log = log[1:]
		}
	}
	for i := range holds {
		h := &holds[i]
		apply(r.marks[h.From].zxid)
		mine := contenders[int64(h.Token)]
		require.NotNil(r.t, mine, "%v: no such contender", *h)
		mine.hold = h
		for c := range there {
			require.False(r.t, mine.gone == 0 && mine.waitsFor(c), "ahead: %v was granted at %v while %s of %s was ahead of it",
				*h, r.marks[h.From].at, c.path, c.label)
		}
		if mine.gone != 0 {
			late = append(late, mine)
		}
	}
	apply(-1)
	for _, mine := range late {
		if slices.ContainsFunc(r.unwatched[mine.label], func(at time.Duration) bool {
			return mine.bornAt <= at && at <= mine.goneAt
		}) {
			continue
		}
		for _, c := range contenders {
			require.False(r.t, c.gone > mine.gone && mine.waitsFor(c),
				"turn: %v was granted at %v, and its node went before %s of %s, which was ahead of it",
				*mine.hold, r.marks[mine.hold.From].at, c.path, c.label)
		}
	}
	return contenders
}

// waitsFor reports whether c should have blocked a contender that was granted: c is ahead, and its hold was not over in
// the same session.
func (mine *contender) waitsFor(c *contender) bool {
	switch {
	case c.born >= mine.born, mine.hold.Read && strings.Contains(c.path, "__READ__"):
		return false
	case c.session == mine.session:
		return c.hold != nil && c.hold.From <= mine.hold.From && c.hold.To > mine.hold.From
	default:
		return true
	}
}

// gone records how a contender was removed. Only its own client and the operator may delete it.
func (r *relay) gone(c *contender, t zktest.Txn) {
	c.gone, c.goneAt = t.Zxid, t.Time.Sub(r.start)
	switch {
	case t.Op == zktest.OpCloseSession:
		c.byHand = r.killed[c.session]
	case t.Client == "operator":
		c.byHand = operation(t)
	default:
		require.Equal(r.t, c.label, t.Client, "%s was deleted by another client: %+v", c.path, t)
	}
}

// operation describes what an operator's transaction deleted.
func operation(t zktest.Txn) string {
	switch {
	case slices.ContainsFunc(t.Changes, func(x zktest.Change) bool { return x.Path == path }):
		return "parent and all"
	case len(t.Changes) > 1:
		return "transaction"
	default:
		return "deletion"
	}
}

// judgeKnown checks that no hold began on a contender that its client could know was deleted: a connection had come up
// at an earlier instant, and every read on it shows the deletion.
func (r *relay) judgeKnown(h check.Hold, c *contender) {
	granted, up := r.marks[h.From].at, r.up[h.Token]
	if c.byHand == "" || c.goneAt >= up || up >= granted {
		return
	}
	behind := slices.ContainsFunc(r.lagging[c.label], func(s span) bool { return s.from <= granted && s.to >= c.goneAt })
	require.True(r.t, behind,
		"known: %v was granted at %v on a connection that came up at %v, and its node was deleted by hand (%s) at %v",
		h, granted, up, c.byHand, c.goneAt)
}

// judgeEnd checks that a hold was over when its contender was deleted, or as soon as its client could know.
func (r *relay) judgeEnd(h check.Hold, c *contender) {
	require.Less(r.t, h.To, check.StillHeld, "%v: never ended", h)
	end := r.marks[h.To].at
	if c.byHand == "" {
		require.LessOrEqual(r.t, end, c.goneAt, "over: %v was held until %v, and its node went at %v", h, end, c.goneAt)
		return
	}
	heard := end - c.goneAt
	for _, s := range r.union(c.label) {
		heard -= max(0, min(end, s.to)-max(c.goneAt, s.from))
	}
	// A client may need some requests before it learns of the deletion: for the proof of its session, and for the watch
	// on its node.
	require.LessOrEqual(r.t, heard, 4*r.latency,
		"told: %v was held until %v, and its node was deleted by hand (%s) at %v; deaf: %v",
		h, end, c.byHand, c.goneAt, r.deaf[c.label])
}

// union returns the spans in which a client was deaf, with overlapping ones merged.
func (r *relay) union(label string) (list []span) {
	spans := r.deaf[label]
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		if last := len(list) - 1; last >= 0 && s.from <= list[last].to {
			list[last].to = max(list[last].to, s.to)
		} else {
			list = append(list, s)
		}
	}
	return list
}

// excuse counts the overlaps of holds of which one had lost its contender by hand. The rules of judge find all others.
func (r *relay) excuse(holds []check.Hold, contenders map[int64]*contender, all *tally) {
	var active []check.Hold
	for _, h := range holds {
		active = slices.DeleteFunc(active, func(a check.Hold) bool { return a.To <= h.From })
		for _, a := range active {
			if a.Read && h.Read {
				continue
			}
			first := contenders[int64(min(a.Token, h.Token))]
			if first.byHand == "" {
				first = contenders[int64(max(a.Token, h.Token))]
			}
			all.excuse(first.byHand, r.marks[min(a.To, h.To)].at-r.marks[h.From].at)
		}
		if h.From < h.To {
			active = append(active, h)
		}
	}
}

// tally is what the relays of one kind of crowd observed.
type tally struct {
	grants, lost int
	overlaps     map[string]excused // by fault
	injected     map[string]int
}

// excused are overlaps with a holder that did not know yet that its node had been deleted by hand.
type excused struct {
	n       int
	longest time.Duration
}

func (t *tally) add(holds []check.Hold, injected map[string]int) {
	t.grants += len(holds)
	for _, h := range holds {
		if h.Lost {
			t.lost++
		}
	}
	for name, n := range injected {
		t.injected[name] += n
	}
}

func (t *tally) excuse(by string, d time.Duration) {
	x := t.overlaps[by]
	t.overlaps[by] = excused{x.n + 1, max(x.longest, d)}
}

func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d grants, %d lost", t.grants, t.lost)
	for _, by := range slices.Sorted(maps.Keys(t.overlaps)) {
		x := t.overlaps[by]
		fmt.Fprintf(&b, "\n  overlaps excused, by %s: %d (%.2f %%), the longest %v", by, x.n,
			100*float64(x.n)/float64(t.grants), x.longest)
	}
	for _, name := range slices.Sorted(maps.Keys(t.injected)) {
		fmt.Fprintf(&b, "\n  %6d  %s", t.injected[name], name)
	}
	return b.String()
}
