package web

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// Shards are those at one path, for the page.
type Shards struct {
	View           any // of the table
	Verdict, Words string
	StandsFor      func(*survey.Queue) bool // the page does not show these queues beside the table
}

// shownShards is a group of shards as the page shows it, in the list of queues.
type shownShards struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"`
	Verdict string   `json:"verdict"`
	Words   string   `json:"words"`
	Holders []string `json:"holders"`
	Waiters []string `json:"waiters"`
	Group   any      `json:"group"`
}

// group is a group of shards as it was read.
type group struct {
	version uint64    // see survey.View
	again   time.Time // when it may be read again: it takes a twentieth of the time at most
	shards  Shards
	text    string
}

// lookAtShards puts a group of shards in the place of its queues. One that cannot be read leaves them as they are. Holders change
// in the queues all the same.
func (p *page) lookAtShards(ctx context.Context, view survey.View, queues map[string]*pageQueue) {
	groups := make(map[string]group, len(view.Shards))
	for path, version := range view.Shards {
		g, known := p.groups[path]
		if start := time.Now(); view.Current && (!known || g.version != version) && !start.Before(g.again) {
			shards, err := p.queues.Shards(ctx, path)
			if err != nil {
				continue
			}
			text, err := survey.JSON(shownShards{path, "shards", shards.Verdict, shards.Words, []string{}, []string{}, shards.View})
			if err != nil {
				continue // it has no field that fails
			}
			g = group{version, time.Now().Add(20 * time.Since(start)), shards, string(text)}
		}
		if g.text == "" {
			continue
		}
		groups[path] = g
		for _, q := range view.Queues {
			if g.shards.StandsFor(q) {
				queues[q.Path] = &pageQueue{"", q.Holders, queues[q.Path].granted}
			}
		}
		row := &pageQueue{text: g.text}
		if q := queues[path]; q != nil {
			row.holders, row.granted = q.holders, q.granted
		}
		queues[path] = row
	}
	p.groups = groups
}
