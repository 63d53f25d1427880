package chaos

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func TestSchedule_SameSeedSameSteps(t *testing.T) {
	kinds := Kinds(true)
	take := func(seed uint64, n int) (steps []Step) {
		for s := range Schedule(seed, kinds, 3*time.Second) {
			if steps = append(steps, s); len(steps) == n {
				break
			}
		}
		return steps
	}
	first := take(7, 2*len(kinds))
	if again := take(7, 2*len(kinds)); !slices.Equal(first, again) {
		t.Errorf("seed 7 gave %v, then %v", first, again)
	}
	if other := take(8, 2*len(kinds)); slices.Equal(first, other) {
		t.Error("another seed gave the same steps")
	}
	seen := map[Kind]bool{}
	for _, s := range first[:len(kinds)] {
		seen[s.Kind] = true
	}
	if len(seen) != len(kinds) {
		t.Errorf("a cycle has %d kinds of %d", len(seen), len(kinds))
	}
}

// story is a history written by hand.
type story struct{ *history }

func (s story) op(client string, called int64) *operation {
	s.groups[client] = "mutex"
	n := int64(len(s.clients[client]) + 1)
	s.tell(client, journal.Line{Event: check.Event{Kind: check.Called, Op: n, At: called, Weight: 1}})
	ops := s.clients[client]
	return ops[len(ops)-1]
}

func (s story) tell(client string, l journal.Line) { s.add(client, l) }

func (s story) granted(client string, called, at, token int64) {
	s.op(client, called)
	s.tell(client, journal.Line{
		Event: check.Event{Kind: check.Granted, At: at, Token: zkrecipes.Token(token)},
		Path:  client,
	})
}

func (s story) released(client string, at int64) {
	s.tell(client, journal.Line{Event: check.Event{Kind: check.Released, At: at}})
}

func (s story) lostA(at, until int64) {
	s.tell("a", journal.Line{Event: check.Event{Kind: check.Lost, At: at}, Until: until, Reason: "deadline"})
}

func (s story) stalledA(at, until int64) {
	s.tell("a", journal.Line{
		Event: check.Event{Kind: check.Lost, At: at}, Until: until, Stalled: true, Reason: "deadline",
	})
}

// judgeStory judges a story, which is a single round with victim a.
func judgeStory(t *testing.T, tell func(s story)) *Report {
	t.Helper()
	s := story{newHistory()}
	tell(s)
	sets, err := resource.Serve(t.TempDir() + "/resource")
	if err != nil {
		t.Fatal(err)
	}
	defer sets.Close()
	r := &run{
		Config:  Config{Groups: []Group{{Recipe: "mutex", Limit: 1}}},
		history: s.history, resource: sets,
		rounds: []round{{Step: Step{Kind: Partition}, Injected: 1, Served: 1000, victims: []string{"a"}}},
	}
	return r.judge(time.Second, nil)
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name     string
		violated string // "" for a history without a violation
		tell     func(s story)
	}{
		{"one after the other", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.released("a", 5)
			s.granted("b", 2, 6, 11)
			s.released("b", 8)
		}},
		{"two at once", "exclusion", func(s story) {
			s.granted("a", 1, 2, 10)
			s.granted("b", 2, 4, 11)
			s.released("a", 5)
			s.released("b", 8)
		}},
		{"the later token first", "order", func(s story) {
			s.granted("b", 1, 2, 11)
			s.released("b", 3)
			s.granted("a", 1, 4, 10)
			s.released("a", 5)
		}},
		{"told before the next grant", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.lostA(50, 49)
			s.granted("b", 3, 60, 11)
			s.released("b", 70)
		}},
		{"told after the next grant", "C2", func(s story) {
			s.granted("a", 1, 2, 10)
			s.granted("b", 3, 60, 11)
			s.lostA(65, 49)
			s.released("b", 70)
		}},
		{"told late since it stood still", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.acts["a"] = []act{{paused, 20}, {resumed, 100}}
			s.granted("b", 3, 60, 11)
			s.released("b", 70)
			s.lostA(101, 49)
		}},
		{"told late since the machine was busy", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.granted("b", 3, 60, 11)
			s.stalledA(65, 49)
			s.released("b", 70)
		}},
		{"the machine was busy, and the deadline was too late", "C2", func(s story) {
			s.granted("a", 1, 2, 10)
			s.granted("b", 3, 60, 11)
			s.stalledA(65, 61)
			s.released("b", 70)
		}},
		{"stood still, and the deadline was too late", "C2", func(s story) {
			s.granted("a", 1, 2, 10)
			s.acts["a"] = []act{{paused, 20}, {resumed, 100}}
			s.granted("b", 3, 60, 11)
			s.released("b", 70)
			s.lostA(101, 65)
		}},
		{"killed while it held", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.acts["a"] = []act{{killed, 20}}
			s.granted("b", 3, 60, 11)
			s.released("b", 70)
		}},
		{"deleted by the operator, and told later", "", func(s story) {
			s.granted("a", 1, 2, 10)
			s.deleted["a"] = 30
			s.granted("b", 3, 31, 11)
			s.lostA(32, 32)
			s.released("b", 70)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := judgeStory(t, c.tell)
			switch {
			case c.violated == "" && len(rep.Violations) > 0:
				t.Errorf("a correct history is rejected: %v", rep.Violations)
			case c.violated != "" && !strings.Contains(strings.Join(rep.Violations, "\n"), c.violated):
				t.Errorf("the violation %q is not found: %v", c.violated, rep.Violations)
			}
			if rep.String() == "" {
				t.Error("the report is empty")
			}
		})
	}
}

func TestTries(t *testing.T) {
	free := func(s story) {
		s.granted("a", 1, 2, 10)
		s.released("a", 5)
		s.op("a", 6).answer = journal.Line{Event: check.Event{Kind: check.Failed, At: 9}}
	}
	switch err := triesOf(t, free); {
	case err == nil:
		t.Error("a try was refused although the lock was free, and the checker accepts it")
	case !strings.Contains(err.Error(), "a#2 busy from 6ns to 9ns"):
		t.Errorf("%v: does not name the try", err)
	}
	orphaned := func(s story) {
		s.granted("a", 1, 2, 10)
		s.released("a", 5)
		s.tell("a", journal.Line{Event: check.Event{Kind: journal.Orphaned, At: 5}})
		s.op("a", 6).answer = journal.Line{Event: check.Event{Kind: check.Failed, At: 9}}
	}
	if err := triesOf(t, orphaned); err != nil {
		t.Errorf("turned away while the servers have the session of the last holder: %v", err)
	}
	behind := func(s story) {
		s.granted("a", 1, 2, 10)
		s.op("b", 3).answer = journal.Line{Event: check.Event{Kind: check.Failed, At: 4}}
		s.tell("b", journal.Line{Event: check.Event{Kind: journal.Orphaned, At: 5}})
		s.released("a", 5)
		s.op("a", 6).answer = journal.Line{Event: check.Event{Kind: check.Failed, At: 9}}
	}
	if err := triesOf(t, behind); err != nil {
		t.Errorf("turned away while the servers have the session of another that was: %v", err)
	}
	fault := round{Step: Step{Kind: PauseLeader}, Injected: 4, Healed: 20, Served: 30}
	if err := triesOf(t, free, fault); err != nil {
		t.Errorf("turned away by a leader that was replaced: %v", err)
	}
	for _, other := range []round{
		{Step: Step{Kind: KillLeader}, Injected: 4, Healed: 20, Served: 30},
		{Step: Step{Kind: PauseLeader}, Injected: 6, Healed: 20, Served: 30},
		{Step: Step{Kind: PauseLeader}, Injected: 1, Healed: 5, Served: 30},
	} {
		if err := triesOf(t, free, other); err == nil {
			t.Errorf("a try was refused although the lock was free, and the checker accepts it in %+v", other)
		}
	}
	held := func(s story) {
		s.granted("a", 1, 2, 10)
		s.op("b", 3).answer = journal.Line{Event: check.Event{Kind: check.Failed, At: 4}}
		s.released("a", 5)
		s.op("a", 30)
	}
	if err := triesOf(t, held); err != nil {
		t.Error(err)
	}
	twice := func(s story) {
		s.granted("a", 1, 2, 10)
		s.granted("b", 3, 4, 11)
		s.released("a", 5)
		s.released("b", 6)
	}
	if err := triesOf(t, twice); err == nil {
		t.Error("two holds at once, and the checker accepts it")
	}
}

func triesOf(t *testing.T, tell func(s story), rounds ...round) error {
	t.Helper()
	s := story{newHistory()}
	tell(s)
	return tries(s.operations("mutex"), s.spans("mutex"), rounds)
}

// A line torn by a kill ends the journal. The lines before it count.
func TestHistory_TornJournal(t *testing.T) {
	h := newHistory()
	h.read("mutex", "a", io.MultiReader(strings.NewReader(
		`{"kind":"called","client":"a","op":1,"at":5,"weight":1}`+"\n"+
			`{"kind":"granted","client":"a","op":1,"at":6,"token":9}`+"\n"+`{"kind":"rele`)))
	spans := h.spans("mutex")
	if len(spans) != 1 || spans[0].From != 6 || spans[0].Token != 9 || spans[0].To != check.StillHeld {
		t.Errorf("read %+v", spans)
	}
}

// If two clients wrote without seeing each other, the one whose hold had ended is at fault.
func TestOverstayed(t *testing.T) {
	s := story{newHistory()}
	s.granted("a", 1, 2, 10)
	s.deleted["a"] = 3
	s.granted("b", 2, 4, 11)
	s.released("b", 5)
	spans := s.spans("mutex")
	late := check.Update{Client: "a", Token: 10}
	next := check.Update{Client: "b", Token: 11}
	for _, l := range []check.LostUpdate{{Lost: next, By: late}, {Lost: late, By: next}} {
		if how := overstayed(spans, l); how != endDeleted {
			t.Errorf("%v: %q", l, how)
		}
	}
	if how := overstayed(spans, check.LostUpdate{Lost: next, By: next}); how != endReleased {
		t.Errorf("no hold had ended before its write: %q", how)
	}
}
