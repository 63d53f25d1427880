package faults_test

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// settled is how long after a fault its victim may need until events reach it again: it reconnects, and repeats what
// was in flight.
const settled = 500 * time.Millisecond

// span is a time in which a client may not learn that its node was deleted.
type span struct{ from, to time.Duration }

// faults returns the faults of a relay. In one relay out of three, all clients learn of every deletion.
func (r *relay) faults() (list []fault, pause time.Duration) {
	list, pause = r.quiet(), 50*time.Millisecond
	if r.random.IntN(3) > 0 {
		list, pause = append(list, r.loud()...), 200*time.Millisecond
	}
	for i, f := range list {
		list[i].inject = func(s *storm, v *actor) func() {
			r.injected[f.name]++
			return f.inject(s, v)
		}
	}
	return list, pause
}

// quiet returns the faults after which events arrive as before.
func (r *relay) quiet() []fault {
	return []fault{
		{"cancel", 3, func(_ *storm, v *actor) func() { v.cancelNow(); return nil }},
		{"cancel on request", 3, (*storm).cancelOnRequest},
		{"reap", 1, func(s *storm, _ *actor) func() { s.srv.Reap(); return nil }},
		{"reap on create", 1, (*storm).reapOnCreate},
		{"data of contenders", 4, r.touch},
		{"events without a cause", 2, r.spurious},
		{"operator deletes", 4, func(*storm, *actor) func() { r.delete(r.random.IntN(3), 1, false); return nil }},
		{"transaction", 6, func(*storm, *actor) func() { r.delete(r.random.IntN(3), 2+r.random.IntN(3), false); return nil }},
		{"transaction on request", 12, r.deleteOnRequest},
		{"parent and all", 3, func(*storm, *actor) func() { r.delete(0, 1000, true); return nil }},
	}
}

// loud returns the faults in which an event may be late. While one lasts, and for a while after it, its victims are
// deaf.
func (r *relay) loud() []fault {
	return []fault{
		r.deafening("cut", 3, settled, func(s *storm, v *actor) func() { s.cut(v); return nil }),
		r.deafening("cut off", 1, settled, (*storm).cutOff),
		r.deafening("cut off before a proof", 8, settled, r.cutOffBeforeProof),
		r.deafening("drop request", 3, settled, func(s *storm, v *actor) func() { return s.rule(v, zktest.DropRequest()) }),
		r.deafening("drop reply", 4, settled, func(s *storm, v *actor) func() { return s.rule(v, zktest.DropReply()) }),
		r.deafening("delay", 2, settled, func(s *storm, v *actor) func() { return r.slowed(v, zktest.DelayUntil) }),
		r.deafening("hold reply", 2, settled, func(s *storm, v *actor) func() { return r.slowed(v, zktest.HoldReplyUntil) }),
		r.deafening("frozen client", 2, settled, (*storm).blackHole),
		r.deafening("stall to server", 1, settled, func(s *storm, v *actor) func() { return s.stall(v, zktest.ToServer) }),
		r.deafening("stall from server", 1, settled,
			func(s *storm, v *actor) func() { return s.stall(v, zktest.FromServer) }),
		// If reading for a watch fails, the read is repeated no sooner than the recheck for lost events.
		r.deafening("throttle", 1, 3*r.timeout, func(s *storm, v *actor) func() { return s.rule(v, zktest.Fail(throttled)) }),
		r.deafening("lose watches", 1, 3*r.timeout, r.loseWatches),
		r.deafening("expire", 1, settled, r.expire),
		r.deafening("restart", 1, settled, everyone(func(s *storm) func() { s.srv.Restart(); return nil })),
		r.deafening("down", 1, settled, everyone(func(s *storm) func() { s.srv.Down(); return s.srv.Up })),
		r.deafening("freeze", 1, settled, everyone(func(s *storm) func() { s.srv.Freeze(); return s.srv.Thaw })),
		{"lag", 2, r.lag},
		{"close", 1, (*storm).close},
	}
}

// deafening returns a fault that makes its victims deaf until a while after it ends.
func (r *relay) deafening(name string, weight int, after time.Duration, inject func(s *storm, v *actor) func()) fault {
	return fault{name, weight, func(s *storm, v *actor) func() {
		from, victims := time.Since(r.start), []string{v.label}
		if name == "restart" || name == "down" || name == "freeze" {
			victims = nil
			for _, a := range r.actors {
				victims = append(victims, a.label)
			}
		}
		hears := func() { r.wasDeaf(span{from, time.Since(r.start) + after}, victims...) }
		undo := inject(s, v)
		if undo == nil {
			hears()
			return nil
		}
		return func() {
			undo()
			hears()
		}
	}}
}

func (r *relay) wasDeaf(s span, labels ...string) {
	for _, label := range labels {
		r.deaf[label] = append(r.deaf[label], s)
	}
}

func everyone(inject func(s *storm) func()) func(*storm, *actor) func() {
	return func(s *storm, _ *actor) func() { return inject(s) }
}

// slowed makes one request, or its answer, wait for the end of the fault.
func (r *relay) slowed(v *actor, action func(<-chan struct{}) zktest.Action) func() {
	m := zktest.Match{From: zktest.Label(v.label), Op: requests[r.random.IntN(len(requests))], Skip: r.random.IntN(3)}
	until := make(chan struct{})
	rule := r.srv.Intercept(m, action(until))
	return func() {
		rule.Remove()
		close(until)
	}
}

// expire makes the server expire the session.
func (r *relay) expire(_ *storm, v *actor) func() {
	id := r.srv.SessionOf(v.label)
	r.killed[id] = "expire"
	r.srv.Expire(id)
	return nil
}

func (r *relay) loseWatches(s *storm, v *actor) func() {
	r.unwatched[v.label] = append(r.unwatched[v.label], time.Since(r.start))
	return s.loseWatches(v)
}

// lag makes one follower fall behind. Its clients are deaf, while the operator's own front keeps up.
func (r *relay) lag(*storm, *actor) func() {
	for i, f := range r.srv.Fronts() {
		if !r.fronts || f.Leads() || i == r.frontOf("operator") || r.random.IntN(2) == 0 {
			continue
		}
		from, victims := time.Since(r.start), []string{}
		for _, a := range r.actors {
			if r.frontOf(a.label) == i {
				victims = append(victims, a.label)
			}
		}
		f.Lag()
		return func() {
			f.CatchUp()
			s := span{from, time.Since(r.start) + settled}
			r.wasDeaf(s, victims...)
			for _, label := range victims {
				r.lagging[label] = append(r.lagging[label], s)
			}
		}
	}
	return nil
}

// contenders lists the contenders in the queue, in order.
func (r *relay) contenders() []string {
	list := r.srv.Children(path)
	number := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return list
}

// delete deletes n contenders in one transaction, starting at a position in the queue. With parent set, the parent is
// deleted too, and recreated half of the time.
func (r *relay) delete(from, n int, parent bool) {
	list := r.contenders()
	list = list[min(from, len(list)):]
	var ops []zkrecipes.Op
	for _, name := range list[:min(n, len(list))] {
		ops = append(ops, zkrecipes.OpDelete(path+"/"+name, -1))
	}
	if parent {
		ops = append(ops, zkrecipes.OpDelete(path, -1), zkrecipes.OpCreate(path, nil, 0))
	}
	if len(ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	// If one of them is already gone, or the server does not answer, another transaction will succeed.
	_, _ = r.operator.Multi(ctx, ops...)
}

// deleteOnRequest deletes contenders in one transaction, just before a client's request is served, or between that and
// the answer.
func (r *relay) deleteOnRequest(_ *storm, v *actor) func() {
	from, n := r.random.IntN(3), 1+r.random.IntN(4)
	do := func(zktest.Request) { r.delete(from, n, false) }
	action := zktest.Before(do)
	if r.random.IntN(2) == 0 {
		action = zktest.After(do)
	}
	ops := []zktest.Op{
		zktest.OpDelete, zktest.OpDelete, zktest.OpGetData, zktest.OpGetData, zktest.OpGetChildren2,
		zktest.OpExists, zktest.OpCreate, zktest.OpSync,
	}
	m := zktest.Match{
		From: zktest.Everyone, Op: ops[r.random.IntN(len(ops))], Skip: r.random.IntN(4),
		Times: 1 + r.random.IntN(3),
	}
	if r.random.IntN(2) == 0 {
		m.From = zktest.Label(v.label)
	}
	m.Where = func(q zktest.Request) bool { return q.Client != "operator" }
	return r.srv.Intercept(m, action).Remove
}

// cutOffBeforeProof cuts a client off when it next requests a proof of its session, and deletes all or some of its
// contenders by hand.
func (r *relay) cutOffBeforeProof(s *storm, v *actor) func() {
	all := r.random.IntN(3) > 0
	var reconnect atomic.Pointer[func()]
	rule := r.srv.Intercept(zktest.Match{
		From: zktest.Label(v.label), Skip: r.random.IntN(2),
		Where: func(q zktest.Request) bool { return q.Op == zktest.OpSync || q.Op == zktest.OpMulti },
	}, zktest.Before(func(q zktest.Request) {
		accept := s.cutOff(v)
		reconnect.Store(&accept)
		var ops []zkrecipes.Op
		for _, name := range r.contenders() {
			if n, ok := r.srv.Node(path + "/" + name); ok && n.Stat.EphemeralOwner == q.Session && (all || len(ops) == 0) {
				ops = append(ops, zkrecipes.OpDelete(path+"/"+name, -1))
			}
		}
		if len(ops) > 0 {
			ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
			defer cancel()
			_, _ = r.operator.Multi(ctx, ops...) // may fail, as in delete
		}
	}))
	return func() {
		rule.Remove()
		if accept := reconnect.Load(); accept != nil {
			(*accept)()
		}
	}
}

// touch writes the data of one of the first contenders. It does not write those of the successor as well, which would
// then have two reasons to check.
func (r *relay) touch(*storm, *actor) func() {
	if list := r.contenders(); len(list) > 0 {
		_ = r.srv.Set(path+"/"+list[r.random.IntN(min(3, len(list)))], []byte("touched")) // it may be gone
	}
	return nil
}

// spurious sends events about one contender that no server would send, but never a deletion: no server reports that an
// existing node was deleted.
func (r *relay) spurious(*storm, *actor) func() {
	if list := r.contenders(); len(list) > 0 {
		of := path + "/" + list[r.random.IntN(min(3, len(list)))]
		for _, e := range []zktest.Event{zktest.NodeChildrenChanged, zktest.NodeDataChanged} {
			r.srv.SendEvent(zktest.Everyone, e, of)
		}
	}
	return nil
}
