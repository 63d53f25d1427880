package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a run.
type Report struct {
	Seed       uint64
	Took       time.Duration
	Session    time.Duration
	Tick       time.Duration
	Servers    string                // what they require of clients
	Operations map[string]Operations // by recipe
	Faults     map[Kind]int
	Follows    map[string]Follows // by recipe
	Linear     map[string]Linear  // by recipe
	Stills     int                // how often all views matched the servers
	Unsettled  int                // transactions that may or may not have been applied
	Overtaken  int                // writes to a node that replaced the writer's own, which package node allows
	Losses     map[string]int
	Sets       map[string]SetResult
	HandOver   map[string]Durations
	Margins    map[Kind]Margins
	Violations []string
}

// Operations counts what a group did.
type Operations struct{ Calls, Holds, Busy, Lost int }

// Follows counts what a group did that follows and writes nodes. Done, Refused and Unknown are the outcomes of its
// operations as the clients know them; Applied is how many of the unknown ones the servers have applied.
type Follows struct{ Done, Refused, Unknown, Applied, Views int }

// Linear counts what Porcupine has judged: operations and registers. Open operations are those whose outcome no client
// knows. Undecided are the registers for which Porcupine had no answer in time.
type Linear struct{ Operations, Open, Registers, Undecided int }

// SetResult counts the updates of one kind of set. For lost updates it records how the holds of the late writers had
// ended.
type SetResult struct {
	Updates, Lost, Refused int
	By                     map[string]int
}

// Durations are measurements in ascending order.
type Durations []time.Duration

// Margins are the times from the end of lost holds to the next grant. For frozen processes they count from the
// deadline, which is what the process sees first when it resumes.
type Margins struct{ Told, Frozen Durations }

func (rep *Report) sort() {
	for _, d := range rep.HandOver {
		slices.Sort(d)
	}
	for _, m := range rep.Margins {
		slices.Sort(m.Told)
		slices.Sort(m.Frozen)
	}
}

// Quantile returns the value at quantile q, or 0 without measurements.
func (d Durations) Quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

// String formats the report as tables.
func (rep *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, c := range cells {
			if d, ok := c.(time.Duration); ok {
				cells[i] = d.Round(100 * time.Microsecond)
			}
		}
		_, _ = fmt.Fprintln(w, join(cells)) // into memory
	}
	row("seed", rep.Seed, "took", rep.Took.Round(time.Second), "session timeout", rep.Session, "tick", rep.Tick)
	row("the servers " + rep.Servers)
	row()
	row("recipe", "calls", "holds", "busy", "lost")
	for _, name := range slices.Sorted(maps.Keys(rep.Operations)) {
		o := rep.Operations[name]
		row(name, o.Calls, o.Holds, o.Busy, o.Lost)
	}
	row()
	row("follower", "done", "refused", "unknown", "of them applied", "views told",
		fmt.Sprint("compared at rest: ", rep.Stills))
	for _, name := range slices.Sorted(maps.Keys(rep.Follows)) {
		f := rep.Follows[name]
		row(name, f.Done, f.Refused, f.Unknown, f.Applied, f.Views)
	}
	row()
	row("linearizable", "operations", "of them open", "registers", "undecided")
	for _, name := range slices.Sorted(maps.Keys(rep.Linear)) {
		l := rep.Linear[name]
		row(name, l.Operations, l.Open, l.Registers, l.Undecided)
	}
	row()
	row("transactions of which the logs do not tell whether they were applied:", rep.Unsettled)
	row("writes that met a node which had just followed the own one:", rep.Overtaken)
	row()
	row("hold ended by", "times")
	for _, how := range slices.Sorted(maps.Keys(rep.Losses)) {
		row(how, rep.Losses[how])
	}
	row()
	row("set", "updates", "lost", "refused by fence", "lost since a hold was")
	for _, name := range slices.Sorted(maps.Keys(rep.Sets)) {
		s := rep.Sets[name]
		var by []string
		for _, how := range slices.Sorted(maps.Keys(s.By)) {
			by = append(by, fmt.Sprintf("%s: %d", how, s.By[how]))
		}
		row(name, s.Updates, s.Lost, s.Refused, strings.Join(by, ", "))
	}
	row()
	row("next grant", "n", "median", "worst")
	for _, what := range slices.Sorted(maps.Keys(rep.HandOver)) {
		d := rep.HandOver[what]
		row(what, len(d), d.Quantile(0.5), d.Quantile(1))
	}
	row()
	row("from loss to next grant", "rounds", "n", "least", "median", "most", "frozen: n", "least", "median", "most")
	for _, kind := range slices.Sorted(maps.Keys(rep.Faults)) {
		t, f := rep.Margins[kind].Told, rep.Margins[kind].Frozen
		row(kind, rep.Faults[kind], len(t), t.Quantile(0), t.Quantile(0.5), t.Quantile(1),
			len(f), f.Quantile(0), f.Quantile(0.5), f.Quantile(1))
	}
	_ = w.Flush() // into memory
	for _, v := range rep.Violations {
		b.WriteString("VIOLATED " + v + "\n")
	}
	return b.String()
}

func join(cells []any) string {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	return strings.Join(texts, "\t")
}
