package playground

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
)

var random = flag.Duration("random", 4*time.Second, "how long TestRandom acts")

// act is a script that does random things for a while. It returns what it has seen, and throws if two holds that
// exclude each other overlap.
const act = `(length) => {
	const verbs = ['take', 'take', 'take', 'read', 'release', 'release', 'cut', 'heal', 'heal', 'lose', 'freeze', 'wake', 'wake', 'expire', 'delete', 'start', 'start', 'stop', 'kill'];
	const pick = (list) => list[Math.floor(Math.random() * list.length)];
	const until = performance.now() + length, seen = { actions: 0, done: 0, holds: new Set(), refused: 0 };
	while (performance.now() < until) {
		playground.moveTo(playground.now + Math.random() * 700);
		const verb = pick(verbs), lane = pick(playground.view.Lanes), who = lane.Name;
		if (['delete', 'expire'].includes(verb) && (!lane.Connected || lane.Cut || lane.Frozen)) continue; // no process could learn of it
		if (playground.act(verb, who) === '') seen.done++;
		seen.actions++;
		const view = playground.view;
		if (view.Fault) throw new Error(view.Fault);
		// No deadline foresees what an operator does to the servers. A holder that has just reconnected has no watch
		// yet, so it learns of that with its next request, two round trips later at most.
		const untold = (b, a) => (b.To < 0 ? view.Now : b.To) - a.From < 500 && (b.To < 0 || b.Why === 'expired' || b.Why === 'node-deleted');
		const holds = view.Lanes.flatMap((l) => (l.Spans ?? []).filter((s) => s.Kind !== 'waits').map((s) => ({ ...s, who: l.Name })));
		for (const a of holds) {
			seen.holds.add(a.Token + a.who + a.From);
			const beside = holds.filter((b) => b.From <= a.From && (b.To < 0 || b.To > a.From) && (a.Kind === 'holds' || b.Kind === 'holds') && !untold(b, a)).length;
			if (beside > (view.Recipe === 'semaphore' ? view.Limit : a.Kind === 'reads' ? 0 : 1)) throw new Error('two holders at ' + view.Now + ': ' + JSON.stringify(holds));
		}
		for (const l of view.Lanes) if (l.Deadline && l.Expires && l.Deadline >= l.Expires) throw new Error('a deadline after the session: ' + JSON.stringify(l));
		seen.refused += view.Lanes.flatMap((l) => l.Marks ?? []).filter((m) => m.Kind === 'refused' && m.At === view.Now).length;
	}
	return { Actions: seen.actions, Done: seen.done, Holds: seen.holds.size, Refused: seen.refused, Virtual: playground.now / 1000, Memory: playground.memory };
}`

// TestRandom performs random actions for a while: nothing panics, no two holds that exclude each other overlap, and
// memory does not grow.
func TestRandom(t *testing.T) {
	p := open(t, nil, "")
	p.Await(`playground.ready`)
	recipes := []string{"mutex", "rwlock", "semaphore", "election"}
	for _, recipe := range recipes {
		p.scene("#n=8&recipe=" + recipe)
		var memory []int64
		actions, done, holds, refused, virtual := 0, 0, 0, 0, 0.0
		for began := time.Now(); time.Since(began) < *random/time.Duration(len(recipes)) || len(memory) < 2; {
			seen := browser.Evaluate[struct {
				Actions, Done, Holds, Refused int
				Virtual                       float64
				Memory                        int64
			}](p.Tab, fmt.Sprintf(`(%s)(400)`, act))
			memory = append(memory, seen.Memory)
			actions, done, holds, refused, virtual = actions+seen.Actions, done+seen.Done, holds+seen.Holds,
				refused+seen.Refused, seen.Virtual
		}
		require.Positive(t, done)
		require.Positive(t, holds)
		half, last := memory[len(memory)/2], memory[len(memory)-1]
		t.Logf(
			"%s: %d actions in %.0f s of the page's clock, %d of them of use, %d holds seen, %d writes refused; "+
				"the program has %.1f MB at half time, and %.1f MB at the end",
			recipe, actions, virtual, done, holds, refused, float64(half)/1e6, float64(last)/1e6)
		if len(memory) > 20 {
			require.LessOrEqual(t, last, half+half/8, "memory grows: %v", memory)
		}
	}
}
