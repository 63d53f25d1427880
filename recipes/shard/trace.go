package shard

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

// traced notifies the tracers of one shard. Only the goroutine of its worker uses it.
type traced struct {
	member *member
	shard  string
	now    zkrecipes.ShardState
	since  time.Time
}

// become reports that the state has changed, and why.
func (t *traced) become(to zkrecipes.ShardState, token zkrecipes.Token, err error) {
	at, from := time.Now(), t.now
	c := zkrecipes.ShardChange{
		Name: t.member.tracerName, Path: t.member.path, Member: t.member.id, Shard: t.shard,
		From: from, To: to, At: at, Token: token, Err: err,
	}
	if from == to {
		return
	}
	if from != zkrecipes.ShardNone {
		c.Lasted = at.Sub(t.since)
	}
	t.now, t.since = to, at
	if tracers := (*client.Client)(t.member.client).Tracers(); tracers.ObserveShards() {
		tracers.Shard(c)
	}
}

// tellPlan reports a plan that this leader has written.
func (l *leader) tellPlan(p plan, moves int) {
	if tracers := (*client.Client)(l.client).Tracers(); tracers.ObserveShards() {
		tracers.ShardPlan(zkrecipes.ShardPlan{
			Name: l.tracerName, Path: l.path, Shards: len(p.names()), Members: len(l.members), Moves: moves, Nobody: len(p.Nobody),
		})
	}
}
