package web

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// Shards are the shards at one path, as shown by the page.
type Shards struct {
	View           any // the table
	Verdict, Words string
	StandsFor      func(*survey.Queue) bool // reports queues that the page does not list in addition to the table
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

// group is a group of shards as it was read. The text is empty if it could not be read, or has not been read yet.
type group struct {
	version uint64    // see survey.View
	again   time.Time // when it may be read again, so that reading takes at most a twentieth of the time
	shards  Shards
	text    string
}

// lookAtShards replaces the queues of each group of shards by the group. The queues of a group that cannot be read stay
// as they are. Changes of holders are still derived from the queues.
func (p *page) lookAtShards(ctx context.Context, view survey.View, queues map[string]*pageQueue) {
	groups := make(map[string]group, len(view.Shards))
	for path, version := range view.Shards {
		g := p.groups[path]
		if start := time.Now(); view.Current && (g.text == "" || g.version != version) && !start.Before(g.again) {
			shards, err := p.queues.Shards(ctx, path)
			g = group{version: version, again: time.Now().Add(20 * time.Since(start)), shards: shards}
			if err == nil {
				text, _ := survey.JSON(shownShards{ // no field of it can fail
					path, "shards", shards.Verdict, shards.Words,
					[]string{},
					[]string{},
					shards.View,
				})
				g.text = string(text)
			}
		}
		groups[path] = g
		if g.text == "" {
			continue
		}
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
