package playground

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
)

// item is something that the page has drawn, with its meaning. Places are in pixels of the picture.
type item struct {
	Kind, Who, Why, Op, Lost string
	From, To, At             float64 // times in the data of the element; To is -1 while it lasts
	Token                    int64
	Left, Right              float64
}

// frame is what the page shows at one moment.
type frame struct {
	Now   float64
	Items []item
	Queue []struct{ Who, Kind, Watched string }
	Story []string
	State map[string]string // by process
}

// observe is a script that returns what the page shows. Requests are optional, because there are many.
const observe = `(requests) => {
	const items = [...document.querySelectorAll('#lanes [data-kind]' + (requests ? '' : ':not([data-kind="request"])'))].map((e) => {
		const d = e.dataset, box = requests && d.kind === 'request' ? {} : e.getBoundingClientRect();
		return { Kind: d.kind, Who: d.who, Why: d.why ?? '', Op: d.op ?? '', Lost: d.lost ?? '', From: Number(d.from ?? 0), To: Number(d.to ?? 0), At: Number(d.at ?? 0),
			Token: Number(d.token ?? 0), Left: box.left ?? 0, Right: box.right ?? 0 };
	});
	return {
		Now: Number(document.getElementById('lanes').dataset.now), Items: items,
		Queue: [...document.querySelectorAll('#queue li')].map((e) => ({ Who: e.dataset.who, Kind: e.dataset.kind, Watched: e.dataset.watched })),
		Story: [...document.querySelectorAll('#story li')].map((e) => e.innerText),
		State: Object.fromEntries([...document.querySelectorAll('#lanes [data-state]')].map((e) => [e.dataset.who, e.dataset.state])),
	};
}`

// film plays a scene to its end, and returns what the page shows, four times a second.
func film(p *tab, hash string) (frames []frame) {
	p.Helper()
	p.scene(hash)
	text := browser.Evaluate[string](p.Tab, `{
		const end = Number(new URLSearchParams(location.hash.slice(1)).get('end')), frames = [], observe = `+observe+`;
		for (let t = 0; t <= end; t += 250) {
			playground.moveTo(t);
			frames.push(observe(t % 3000 === 0 || t + 250 > end));
		}
		JSON.stringify(frames);
	}`)
	require.NoError(p, json.Unmarshal([]byte(text), &frames))
	require.Greater(p, len(frames), 30)
	return frames
}

// sound checks what is drawn at each moment: holds that exclude each other share no pixel of time, the page never
// reports that two processes hold, and the deadline of a hold precedes the end of its session.
func sound(t *testing.T, frames []frame, limit int) {
	t.Helper()
	seen := 0
	for _, f := range frames {
		holds := f.of("", "holds", "reads")
		for _, a := range holds {
			beside := 0
			for _, b := range holds {
				if b.Left <= a.Left && b.Right > a.Left && (a.Kind == "holds" || b.Kind == "holds") {
					beside++
				}
			}
			most := limit
			if a.Kind == "reads" {
				most = 0
			}
			require.LessOrEqual(t, beside, most, "at %v: %+v", f.Now, holds)
		}
		for _, column := range f.of("", "column") {
			require.Equal(t, "overlap", column.Why, "at %v", f.Now) // this one is Curator's rule
		}
		for _, deadline := range f.of("", "deadline") {
			expires := f.of(deadline.Who, "expires")
			require.Len(t, expires, 1, "at %v", f.Now)
			require.Less(t, deadline.Left+deadline.Right, expires[0].Left+expires[0].Left, "at %v", f.Now)
			require.Less(t, deadline.At, expires[0].At, "at %v", f.Now)
			seen++
		}
	}
	require.Greater(t, seen, 10, "deadlines were drawn")
}

// of returns the items of the given kinds, of one process or of all, in the order of time.
func (f frame) of(who string, kinds ...string) (found []item) {
	for _, i := range f.Items {
		if slices.Contains(kinds, i.Kind) && (who == "" || i.Who == who) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b item) int { return int(a.From + a.At - b.From - b.At) })
	return found
}

// all returns the items of all frames, each as it was last drawn.
func all(frames []frame, who string, kinds ...string) (found []item) {
	for _, f := range frames {
		for _, i := range f.of(who, kinds...) {
			same := func(other item) bool {
				return other.Kind == i.Kind && other.Who == i.Who && other.Op == i.Op && other.From == i.From && other.At == i.At &&
					other.Token == i.Token
			}
			if at := slices.IndexFunc(found, same); at >= 0 {
				found[at] = i
				continue
			}
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b item) int { return int(a.From + a.At - b.From - b.At) })
	return found
}

// names returns the processes that the items belong to.
func names(items []item) (found []string) {
	for _, i := range items {
		found = append(found, i.Who)
	}
	return found
}

// TestScenes plays each scene of the page, and compares what is drawn with what the scene promises.
func TestScenes(t *testing.T) {
	p := open(t, nil, "")
	p.Await(`playground.ready`)
	links := browser.Evaluate[map[string]string](p.Tab,
		`Object.fromEntries([...document.querySelectorAll('#scenes a')].map((a) => [a.querySelector('b').textContent, a.getAttribute('href')]))`)
	require.Len(t, links, len(promises))
	for title, promise := range promises {
		require.Contains(t, links, title)
		frames := film(p, links[title])
		limit := 1
		if title == "A semaphore" {
			limit = 2
		}
		sound(t, frames, limit)
		promise(t, frames)
		verdict, known := verdicts[title]
		if !known {
			verdict = "Never two holders."
		}
		require.Equal(t, verdict, browser.Evaluate[string](p.Tab,
			`document.getElementById('verdict').innerText.trim().replace(/\s+/g, ' ')`), title)
		if name, pictured := pictures[title]; pictured {
			p.look(1200, 560, false)
			p.Picture(shown, name)
		}
		if t.Failed() {
			t.Fatal(title)
		}
	}
}

// pictures are the scenes that the documents show, with the names of the files.
var pictures = map[string]string{"The partition": "the-partition", "Curator’s rule": "curators-rule"}

// verdicts are what the page reports at the end of the scenes that involve more than a lock.
var verdicts = map[string]string{
	"Curator’s rule":       "Never two holders. Two holders for 3.0 s by Curator’s rule.",
	"Readers and a writer": "Never a writer together with another holder.",
	"A semaphore":          "Never more than 2 leases.",
	"An election":          "Never two leaders.",
}

// promises are the checks of what each scene promises, by title.
var promises = map[string]func(*testing.T, []frame){
	"The partition": func(t *testing.T, frames []frame) {
		anna, ben, over := all(frames, "anna", "holds"), all(frames, "ben", "holds"), all(frames, "anna", "over")
		require.Len(t, anna, 1)
		require.Equal(t, "deadline", anna[0].Why)
		require.Len(t, over, 1)
		require.Less(t, anna[0].To, over[0].At, "the deadline before the end of the session")
		require.Less(t, over[0].At, ben[0].From)
		require.Less(t, anna[0].Token, ben[0].Token)
		require.Len(t, all(frames, "cleo", "holds"), 1, "after ben it is the turn of cleo")
		require.Len(t, all(frames, "anna", "cut"), 1)
	},
	"Curator’s rule": func(t *testing.T, frames []frame) {
		anna, ben := all(frames, "anna", "holds")[0], all(frames, "ben", "holds")[0]
		rule, overlap := all(frames, "anna", "rule"), all(frames, "anna", "overlap")
		require.Less(t, anna.To, ben.From, "ours ends before")
		require.Equal(t, "LOST", rule[0].Why)
		require.Greater(t, rule[0].To, ben.From, "the rule ends after")
		require.NotEmpty(t, overlap)
		last := overlap[len(overlap)-1]
		require.InDelta(t, rule[0].To-ben.From, last.To-last.From, 1)
		require.Greater(t, last.Right-last.Left, 50.0, "and it is seen")
		require.Equal(t, "ben", last.Why)
		columns := all(frames, "anna", "column")
		require.NotEmpty(t, columns, "the time of two holders is marked in all lanes")
	},
	"The frozen holder": func(t *testing.T, frames []frame) {
		anna, ben, refused := all(frames, "anna", "holds")[0], all(frames, "ben", "holds")[0], all(frames, "", "refused")
		require.Less(t, anna.To, ben.From)
		require.Equal(t, []string{"anna"}, names(refused))
		frozen := all(frames, "anna", "frozen")
		require.Equal(t, frozen[0].To, refused[0].At, "she writes when she wakes")
		require.Less(t, frozen[0].From, anna.To, "she has looked at a hold that was valid")
		require.Less(t, ben.From, refused[0].At)
		require.Less(t, anna.Token, ben.Token)
		require.NotEmpty(t, all(frames, "ben", "write"), "the fence lets the next holder write")
		for _, write := range all(frames, "anna", "write") {
			require.Less(t, write.At, frozen[0].From)
		}
		require.True(t, slices.ContainsFunc(frames[len(frames)-1].Story,
			func(line string) bool { return strings.Contains(line, "rejects it") }))
	},
	"The lost reply": func(t *testing.T, frames []frame) {
		for _, f := range frames {
			of := 0
			for _, c := range f.Queue {
				if c.Who == "anna" {
					of++
				}
			}
			require.LessOrEqual(t, of, 1, "at %v", f.Now)
		}
		require.True(t, slices.ContainsFunc(all(frames, "anna", "request"),
			func(i item) bool { return i.Op == "create" && i.Lost == "true" }))
		require.Len(t, all(frames, "anna", "unanswered"), 1, "the reply that is lost is in the picture")
		creates := 0
		for _, i := range all(frames, "anna", "request") {
			if i.Op == "create" {
				creates++
			}
		}
		require.Equal(t, 1, creates, "she uses the node that she has found, and makes no other")
		require.Equal(t, []string{"anna", "ben"}, names(all(frames, "", "holds")))
		require.Empty(t, frames[len(frames)-1].Queue, "no ghost")
	},
	"A fair queue, no herd": func(t *testing.T, frames []frame) {
		holds := all(frames, "", "holds")
		require.Equal(t, []string{"anna", "ben", "cleo", "dora", "emil", "finn"}, names(holds))
		events := all(frames, "", "event")
		for i, hold := range holds {
			var woken []string
			for _, e := range events {
				if e.Who != hold.Who && e.At >= hold.To && (i+1 == len(holds) || e.At < holds[i+1].To) {
					woken = append(woken, e.Who)
				}
			}
			if i+1 < len(holds) {
				require.Equal(t, []string{holds[i+1].Who}, woken, "a release wakes one waiter")
			}
		}
		longest := 0
		for _, f := range frames {
			longest = max(longest, len(f.Queue))
			for i, c := range f.Queue {
				if watched := strings.Fields(c.Watched); len(watched) > 0 {
					require.Equal(t, f.Queue[i+1].Who, watched[0], "only the next one watches, at %v", f.Now)
					require.Len(t, watched, 1)
				}
			}
		}
		require.Equal(t, 6, longest)
	},
	"Readers and a writer": func(t *testing.T, frames []frame) {
		reads, cleo := all(frames, "", "reads"), all(frames, "cleo", "holds")[0]
		require.Equal(t, []string{"anna", "ben"}, names(reads[:2]))
		require.Less(t, reads[1].From, reads[0].To, "readers hold together")
		require.Less(t, max(reads[0].To, reads[1].To), cleo.From)
		require.Len(t, reads, 4)
		require.Less(t, cleo.To, min(reads[2].From, reads[3].From), "those who came after the writer read after it")
		require.Less(t, reads[3].From, reads[2].To, "and together")
	},
	"A semaphore": func(t *testing.T, frames []frame) {
		holds := all(frames, "", "holds")
		require.Equal(t, []string{"anna", "ben", "cleo", "dora", "emil"}, names(holds))
		most := 0
		for _, f := range frames {
			now := 0
			for _, h := range f.of("", "holds") {
				if h.To < 0 {
					now++
				}
			}
			most = max(most, now)
		}
		require.Equal(t, 2, most)
		over := all(frames, "ben", "over")
		require.Len(t, over, 1)
		require.GreaterOrEqual(t, holds[3].From, over[0].At,
			"the lease of a process that was killed comes back with the end of its session")
	},
	"An election": func(t *testing.T, frames []frame) {
		holds := all(frames, "", "holds")
		require.Equal(t, []string{"anna", "ben", "cleo", "dora"}, names(holds))
		require.Greater(t, holds[1].From, all(frames, "anna", "over")[0].At)
		require.Equal(t, "session-ended", holds[1].Why)
		require.Equal(t, "node-deleted", holds[2].Why)
		require.Equal(t, "holds", frames[len(frames)-1].State["dora"])
	},
}
