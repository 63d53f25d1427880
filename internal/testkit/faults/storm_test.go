package faults_test

import (
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// storm injects faults one after another, and undoes the lasting ones.
type storm struct {
	*play
	end  time.Time
	undo []undo
	// pause is the longest time between two faults, and lasts draws the duration of a lasting one.
	pause time.Duration
	lasts func() time.Duration
}

// undo ends a lasting fault.
type undo struct {
	at time.Time
	do func()
}

// fault is one kind of fault. Injecting it returns how to undo it, if it lasts.
type fault struct {
	name   string
	weight int
	inject func(s *storm, victim *actor) (undo func())
}

// requests are the operations that rules choose from. OpAny is any but pings.
var requests = []zktest.Op{
	zktest.OpAny, zktest.OpAny, zktest.OpCreate, zktest.OpCreate, zktest.OpDelete, zktest.OpDelete, zktest.OpDelete,
	zktest.OpGetChildren2, zktest.OpGetData, zktest.OpSync, zktest.OpMulti,
	zktest.OpExists, zktest.OpConnect, zktest.OpSetWatches, zktest.OpPing, zktest.OpCreateContainer, zktest.OpCloseSession,
}

func (s *storm) match(victim *actor) zktest.Match {
	return zktest.Match{
		From: zktest.Label(victim.label), Op: requests[s.random.IntN(len(requests))], Times: 1 + s.random.IntN(2),
		Skip: s.random.IntN(3),
	}
}

// rule installs a rule, and removes it after a while if no request matched.
func (s *storm) rule(victim *actor, a zktest.Action) func() {
	return s.srv.Intercept(s.match(victim), a).Remove
}

func (s *storm) cut(victim *actor) { s.srv.Cut(zktest.Label(victim.label)) }

func (s *storm) short() time.Duration { return s.within(s.timeout / 2) }

var everyFault = []fault{
	{"cut", 2, func(s *storm, v *actor) func() { s.cut(v); return nil }},
	{"cut off", 2, (*storm).cutOff},
	{"black hole", 1, (*storm).blackHole},
	{"cut all", 1, func(s *storm, _ *actor) func() { s.srv.CutAll(); return nil }},
	{"drop request", 3, func(s *storm, v *actor) func() { return s.rule(v, zktest.DropRequest()) }},
	{"drop reply", 4, func(s *storm, v *actor) func() { return s.rule(v, zktest.DropReply()) }},
	{"ignore sync", 1, (*storm).ignoreSync},
	{"delay", 2, func(s *storm, v *actor) func() { return s.rule(v, zktest.Delay(s.short())) }},
	{"hold reply", 2, func(s *storm, v *actor) func() { return s.rule(v, zktest.HoldReply(s.short())) }},
	{"throttle", 1, func(s *storm, v *actor) func() { return s.rule(v, zktest.Fail(throttled)) }},
	{"slow", 1, (*storm).slow},
	{"stall to server", 1, func(s *storm, v *actor) func() { return s.stall(v, zktest.ToServer) }},
	{"stall from server", 1, func(s *storm, v *actor) func() { return s.stall(v, zktest.FromServer) }},
	{"expire", 1, (*storm).expire},
	{"restart", 1, func(s *storm, _ *actor) func() { s.srv.Restart(); return nil }},
	{"down", 1, func(s *storm, _ *actor) func() { s.srv.Down(); return s.srv.Up }},
	{"freeze", 1, func(s *storm, _ *actor) func() { s.srv.Freeze(); return s.srv.Thaw }},
	{"reap", 2, func(s *storm, _ *actor) func() { s.srv.Reap(); return nil }},
	{"reap on create", 2, (*storm).reapOnCreate},
	{"operator deletes", 1, (*storm).deleteOne},
	{"operator deletes all", 1, (*storm).deleteAll},
	{"cancel", 3, func(_ *storm, v *actor) func() { v.cancelNow(); return nil }},
	{"cancel on request", 3, (*storm).cancelOnRequest},
	{"close", 1, (*storm).close},
	{"lose watches", 1, (*storm).loseWatches},
	{"spurious events", 1, (*storm).spurious},
}

// run injects faults until the storm is over.
func (s *storm) run(faults []fault) {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for time.Now().Before(s.end) {
		s.wait(min(s.within(s.pause), time.Until(s.end)))
		n := s.random.IntN(total)
		for _, f := range faults {
			if n -= f.weight; n >= 0 {
				continue
			}
			victim := s.victim()
			if *verbose {
				s.t.Logf("%12v %s: %s", time.Since(s.start), victim.label, f.name)
			}
			if do := f.inject(s, victim); do != nil {
				s.undo = append(s.undo, undo{time.Now().Add(s.lasts()), do})
			}
			break
		}
	}
	for _, u := range s.undo {
		u.do()
	}
}

// victim returns a random client: every second time a holder, if there is one.
func (s *storm) victim() *actor {
	victim, holder := s.actors[s.random.IntN(len(s.actors))], s.random.IntN(2) == 0
	for _, a := range s.actors {
		if holder && a.holding.Load() {
			return a
		}
	}
	return victim
}

// wait lets time pass, and undoes the faults that are due.
func (s *storm) wait(d time.Duration) {
	until := time.Now().Add(d)
	for {
		next, at := -1, until
		for i, u := range s.undo {
			if u.at.Before(at) {
				next, at = i, u.at
			}
		}
		time.Sleep(time.Until(at))
		if next < 0 {
			return
		}
		s.undo[next].do()
		s.undo = append(s.undo[:next], s.undo[next+1:]...)
	}
}

func (s *storm) cutOff(v *actor) func() {
	s.srv.Refuse(zktest.Label(v.label))
	s.cut(v)
	return func() { s.srv.Accept(zktest.Label(v.label)) }
}

func (s *storm) blackHole(v *actor) func() { return s.stall(v, zktest.Both) }

func (s *storm) stall(v *actor, d zktest.Direction) func() {
	s.srv.Stall(zktest.Label(v.label), d)
	return func() { s.srv.Heal(zktest.Label(v.label)) }
}

// slow delays every answer for a while, including those to pings.
func (s *storm) slow(v *actor) func() {
	late := zktest.HoldReply(s.short())
	rules := []*zktest.Rule{
		s.srv.Intercept(zktest.Match{From: zktest.Label(v.label), Times: -1}, late),
		s.srv.Intercept(zktest.Match{From: zktest.Label(v.label), Op: zktest.OpPing, Times: -1}, late),
	}
	return func() {
		for _, r := range rules {
			r.Remove()
		}
	}
}

// expire makes the server expire the session.
func (s *storm) expire(v *actor) func() {
	id := s.srv.SessionOf(v.label)
	s.take(s.srv.Ephemerals(id)...)
	s.srv.Expire(id)
	return nil
}

// ignoreSync leaves syncs unanswered, mostly those of the heartbeat. A real server cannot ignore any other request: it
// answers in order, so an answered sync shows that everything before it was answered.
func (s *storm) ignoreSync(v *actor) func() {
	return s.srv.Intercept(zktest.Match{From: zktest.Label(v.label), Op: zktest.OpSync, Path: "^/$", Times: 5},
		zktest.Ignore()).Remove
}

func (s *storm) reapOnCreate(v *actor) func() {
	return s.srv.Intercept(zktest.Match{From: zktest.Label(v.label), Op: zktest.OpCreate},
		zktest.Before(func(zktest.Request) {
			s.srv.Reap()
		})).Remove
}

func (s *storm) deleteOne(v *actor) func() {
	list := s.srv.Ephemerals(s.srv.SessionOf(v.label))
	if len(list) == 0 {
		return nil
	}
	s.take(list...) // one of several leases created together represents all of them
	_ = s.srv.Delete(list[s.random.IntN(len(list))])
	return nil
}

func (s *storm) deleteAll(*actor) func() {
	for _, n := range s.srv.Tree(path) {
		s.take(n.Path)
	}
	_ = s.srv.DeleteAll("/app") // it may be missing, or get new children
	return nil
}

func (a *actor) cancelNow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel()
	}
}

func (s *storm) cancelOnRequest(v *actor) func() {
	do := func(zktest.Request) { v.cancelNow() }
	a := zktest.Before(do)
	if s.random.IntN(2) == 0 {
		a = zktest.After(do)
	}
	return s.rule(v, a)
}

// close closes the client while it is working. The actor opens another one.
func (s *storm) close(v *actor) func() {
	v.mu.Lock()
	v.reopen = true
	c := v.client
	v.mu.Unlock()
	s.wg.Go(func() { _ = c.Close() }) // it never fails
	return nil
}

// loseWatches does what no real server does. Each lost watch may delay a waiter by up to three timeouts, so none is
// lost in the last part of the storm.
func (s *storm) loseWatches(v *actor) func() {
	if time.Until(s.end) < s.length/3 {
		return nil
	}
	for _, n := range s.srv.Tree(path) {
		s.srv.LoseWatch(zktest.Label(v.label), n.Path)
	}
	return nil
}

func (s *storm) spurious(v *actor) func() {
	for _, n := range s.srv.Tree(path) {
		for _, e := range []zktest.Event{zktest.NodeChildrenChanged, zktest.NodeDataChanged} {
			s.srv.SendEvent(zktest.Label(v.label), e, n.Path)
		}
	}
	return nil
}
