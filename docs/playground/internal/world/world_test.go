package world

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// run plays a setting in virtual time, and passes each view to see, ten times a second.
func run(t *testing.T, link string, length time.Duration, see func(View)) (last View) {
	t.Helper()
	s, err := Parse(link)
	require.NoError(t, err)
	w, err := New(t.Context(), s)
	require.NoError(t, err)
	defer w.Close()
	for range length / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		last = w.View(0)
		sound(t, last)
		if see != nil {
			see(last)
		}
	}
	return last
}

// sound checks what must be true in every view: no two holds that exclude each other overlap, each deadline precedes
// the end of its session, and the server has found no fault.
func sound(t *testing.T, v View) {
	t.Helper()
	require.Empty(t, v.Fault)
	var holds []Span
	for _, l := range v.Lanes {
		if l.Deadline != 0 && l.Expires != 0 {
			require.Less(t, l.Deadline, l.Expires, "%s at %v", l.Name, v.Now)
		}
		for _, s := range l.Spans {
			if s.Kind != "waits" {
				holds = append(holds, s)
			}
		}
	}
	for _, a := range holds {
		beside := 0
		for _, b := range holds {
			if (b.To == Open || b.To > a.From) && b.From <= a.From && (a.Kind != "reads" || b.Kind != "reads") {
				beside++
			}
		}
		limit := 1
		switch {
		case v.Recipe == Semaphore:
			limit = v.Limit
		case a.Kind == "reads":
			limit = 0
		}
		require.LessOrEqual(t, beside, limit, "%+v began beside others: %+v", a, holds)
	}
}

// holds returns the spans of a lane during which it held.
func holds(v View, name string) (found []Span) {
	for _, l := range v.Lanes {
		for _, s := range l.Spans {
			if l.Name == name && s.Kind != "waits" {
				found = append(found, s)
			}
		}
	}
	return found
}

// scenes returns the links on the page.
func scenes(t *testing.T) (links []string) {
	t.Helper()
	page, err := os.ReadFile("../../index.html")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`<a href="#([^"]+)"><b>`).FindAllStringSubmatch(string(page), -1) {
		links = append(links, found[1])
	}
	require.Len(t, links, 8)
	return links
}

// TestScenes: each scene of the page can be played, and no two holds that exclude each other overlap. What a scene
// promises is tested where it is drawn, in integration/playground.
func TestScenes(t *testing.T) {
	for _, link := range scenes(t) {
		synctest.Test(t, func(t *testing.T) {
			s, err := Parse(link)
			require.NoError(t, err)
			v := run(t, link, 20*time.Second, nil)
			for _, line := range v.Story {
				require.NotContains(t, line.Text, "already", "all steps make sense")
				require.NotContains(t, line.Text, "nothing to", "all steps make sense")
				require.NotContains(t, line.Text, "first", "all steps make sense")
			}
			require.NotEmpty(t, s.Steps)
		})
	}
}

// TestRule: Curator's rule reports LOST two thirds of a timeout plus a whole one after the last byte, when another
// process already holds.
func TestRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := Moment(0)
		v := run(t, "n=3&do=300.take.anna,1000.take.ben,3500.cut.anna", 16*time.Second, func(v View) {
			for _, r := range v.Lanes[0].Requests {
				if !r.Lost && r.Done != Open {
					heard = max(heard, r.Done)
				}
			}
		})
		rule := v.Lanes[0].Rule
		require.Len(t, rule, 1)
		require.InDelta(t, float64(heard+timeoutMs*5/3), float64(rule[0].To), 1e-6)
		require.Equal(t, "LOST", rule[0].Why)
		overlap := v.Lanes[0].Overlaps
		require.Len(t, overlap, 1)
		require.Equal(t, holds(v, "ben")[0].From, overlap[0].From)
		require.Equal(t, rule[0].To, overlap[0].To)
	})
}

// TestRule_Reset: once a connection ends, the rule counts one timeout, which a new connection cancels.
func TestRule_Reset(t *testing.T) {
	c := curator{suspended: Open}
	c.begins(0)
	c.granted(100, "/lock/a", 7)
	c.hangsUp(1000)
	require.Equal(t, 1000+timeoutMs, c.deadline())
	c.hears(2000)
	require.Equal(t, 2000+silenceMs+timeoutMs, c.deadline())
	c.settle(2000 + silenceMs)
	require.Equal(t, 2000+silenceMs, c.suspended)
	c.settle(1e6)
	require.Equal(t, 2000+silenceMs+timeoutMs, c.holds[0].To)
	require.Nil(t, c.present())
}

// TestFrozen_Killed: a process that is killed while frozen writes nothing.
func TestFrozen_Killed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := run(t, "n=3&do=300.take.anna,2000.freeze.anna,3000.kill.anna,3500.start.anna,4000.take.anna",
			15*time.Second, nil)
		for _, m := range v.Lanes[0].Marks {
			if m.Kind == "write" {
				require.True(t, m.At < 2000 || m.At > 8000, "at %v", m.At)
			}
		}
		require.Len(t, holds(v, "anna"), 2, "after the end of its first session it holds again")
	})
}

// TestEnd_LeavesNothing: a connection that is stalled forever would stay on the server.
func TestEnd_LeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(t.Context(), Setting{Recipe: Mutex, Processes: 3, Limit: 1})
		require.NoError(t, err)
		defer w.Close()
		for i := range 20 {
			time.Sleep(time.Second)
			require.NoError(t, w.Do([]Verb{"cut", "freeze"}[i%2], "anna"))
			require.NoError(t, w.Do([]Verb{"kill", "kill", "stop", "stop"}[i%4], "anna"))
			time.Sleep(2 * time.Second)
			require.NoError(t, w.Do("start", "anna"))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 3, w.server.Connections())
		require.Len(t, w.server.Sessions(), 3)
	})
}

// TestEnd_LeavesNoClient: a client that is closed while the answer to its last request is in flight can be garbage
// collected.
func TestEnd_LeavesNoClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(t.Context(), Setting{Recipe: Mutex, Processes: 3, Limit: 1})
		require.NoError(t, err)
		defer w.Close()
		require.NoError(t, w.Do("take", "ben"))
		time.Sleep(4 * time.Second)
		gone := weak.Make(w.processes[1].client)
		require.NoError(t, w.Do("release", "ben"))
		time.Sleep(latency / 2)
		require.NoError(t, w.Do("kill", "ben"))
		time.Sleep(time.Second)
		require.NoError(t, w.Do("start", "ben"))
		time.Sleep(time.Minute)
		synctest.Wait()
		for tries := 0; gone.Value() != nil; tries++ {
			require.Less(t, tries, 10, "the client is still in memory")
			runtime.GC()
		}
	})
}

// TestElection_SaysWhatWasLost: when a session ends, its node is deleted too, and the story blames the session.
func TestElection_SaysWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := run(t, "recipe=election&n=3&do=300.take.anna,600.take.ben,3000.expire.anna,6000.delete.ben", 8*time.Second, nil)
		require.Equal(t, "session-ended", holds(v, "anna")[0].Why)
		require.Equal(t, "node-deleted", holds(v, "ben")[0].Why)
		told := func(who, text string) bool {
			return slices.ContainsFunc(v.Story, func(l Line) bool { return l.Who == who && l.Text == text })
		}
		require.True(t, told("anna", "loses its hold: session ended"))
		require.True(t, told("ben", "loses its hold: node deleted"))
		require.False(t, told("anna", "loses its hold: node deleted"))
	})
}

// TestView_Forgets: the history does not grow forever.
func TestView_Forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Parse("n=3&do=300.take.anna,1000.take.ben")
		require.NoError(t, err)
		w, err := New(t.Context(), s)
		require.NoError(t, err)
		defer w.Close()
		var sizes []int
		for range 4 {
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			sizes = append(sizes, len(w.View(0).Lanes[0].Requests))
		}
		require.InDelta(t, sizes[1], sizes[3], 5)
		require.Equal(t, "holds", w.View(0).Lanes[0].State, "what has not ended stays")
	})
}

var seeds = flag.Int("seeds", 3, "how many random stories TestRandom plays of each recipe")

// byHand reports whether an operator does this to the servers, which no deadline can foresee.
func (v Verb) byHand() bool { return v == "delete" || v == "expire" }

// TestByHand: a process that is cut off cannot learn that its node was deleted. Then two processes hold, and the page
// reports it. The fence rejects the first.
func TestByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Parse("n=3&do=300.take.anna,1000.take.ben,2000.cut.anna,2500.delete.anna")
		require.NoError(t, err)
		w, err := New(t.Context(), s)
		require.NoError(t, err)
		defer w.Close()
		time.Sleep(10 * time.Second)
		v := w.View(0)
		anna, ben := holds(v, "anna")[0], holds(v, "ben")[0]
		require.Less(t, ben.From, anna.To)
		require.Equal(t, []Span{{Kind: "both", From: ben.From, To: anna.To, Why: "ben"}}, v.Lanes[0].Both)
		require.Contains(t, v.Lanes[0].Marks, Mark{
			"refused", v.Lanes[0].refused(),
			fmt.Sprintf("writes with token %d; the fence has seen %d and rejects it", anna.Token, ben.Token),
		})
	})
}

// refused returns when the last write was refused.
func (l Lane) refused() (at Moment) {
	for _, m := range l.Marks {
		if m.Kind == "refused" {
			at = m.At
		}
	}
	return at
}

// TestRandom: whatever happens to the processes, no two holds overlap.
func TestRandom(t *testing.T) {
	for _, recipe := range []Recipe{Mutex, RWLock, Semaphore, Election} {
		for seed := range uint64(*seeds) {
			synctest.Test(t, func(t *testing.T) {
				chance := rand.New(rand.NewPCG(seed, 7))
				w, err := New(t.Context(), Setting{Recipe: recipe, Processes: 8, Limit: 2})
				require.NoError(t, err)
				defer w.Close()
				all := []Verb{"take", "take", "read", "release", "heal", "wake", "wake", "start"}
				for verb := range verbs {
					all = append(all, verb)
				}
				slices.Sort(all)
				granted := 0
				for range 600 {
					time.Sleep(time.Duration(chance.IntN(600)) * time.Millisecond)
					verb, who := all[chance.IntN(len(all))], chance.IntN(8)
					if l := w.View(0).Lanes[who]; verb.byHand() && (!l.Connected || l.Cut || l.Frozen) {
						continue // see TestByHand
					}
					_ = w.Do(verb, Names[who]) // it may make no sense now
					synctest.Wait()
					v := w.View(0)
					sound(t, v)
					for _, l := range v.Lanes {
						granted = max(granted, len(holds(v, l.Name)))
					}
				}
				require.Positive(t, granted)
			})
		}
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("recipe=semaphore&n=5&limit=3&rule=1&end=9&do=600.take.ben,300.cut.anna")
	require.NoError(t, err)
	require.Equal(t, Setting{
		Semaphore, 5, 3,
		[]Step{{300 * time.Millisecond, "cut", "anna"}, {600 * time.Millisecond, "take", "ben"}},
	}, s)
	s, err = Parse("")
	require.NoError(t, err)
	require.Equal(t, Setting{Mutex, 4, 2, nil}, s)
	for link, says := range map[string]string{
		"recipe=latch":      "want mutex, rwlock",
		"n=2":               "from 3 to 8",
		"n=nine":            "from 3 to 8",
		"limit=0":           "from 1 to 8",
		"do=1.take":         "want milliseconds, action and name",
		"do=x.take.anna":    "an hour at most",
		"do=-1.take.anna":   "an hour at most",
		"do=1.steal.anna":   "no such action",
		"n=3&do=1.take.eve": "no such process",
		"do=1.take.hugo":    "no such process",
		"do=%zz":            "damaged",
	} {
		_, err := Parse(link)
		require.ErrorContains(t, err, says, link)
	}
}

// TestDo_SaysWhyNot: an action that makes no sense changes nothing.
func TestDo_SaysWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(t.Context(), Setting{Recipe: Mutex, Processes: 3, Limit: 1})
		require.NoError(t, err)
		defer w.Close()
		time.Sleep(time.Second)
		for _, c := range []string{
			"steal anna: no such action", "take eve: no such process", "start anna: is already running",
			"read anna: only a read-write lock",
			"release anna: holds nothing", "heal anna: is not cut off", "wake anna: is not frozen", "delete anna: has no node",
			"stop anna: ", "stop anna: is stopped", "take anna: is stopped", "cut anna: is stopped", "lose anna: is stopped",
			"expire anna: has no session",
			"take ben: ", "take ben: already", "cut ben: ", "cut ben: already", "lose ben: ", "lose ben: already",
			"freeze ben: ", "freeze ben: is frozen", "release ben: is frozen",
		} {
			what, says, _ := strings.Cut(c, ": ")
			verb, who, _ := strings.Cut(what, " ")
			err := w.Do(Verb(verb), who)
			if says == "" {
				require.NoError(t, err, c)
				continue
			}
			require.ErrorContains(t, err, says, c)
		}
	})
}
