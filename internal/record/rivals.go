package record

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

const (
	firstPause = 4 // round trips, at most
	doublings  = 4

	// patience is the number of refusals after which the pauses are a quarter of the longest.
	patience = 12

	// longestPause is short for a distant ensemble, but a distant client sends rarely, and would only wait longer.
	longestPause = 100 * time.Millisecond

	// streak is how many updates one client makes without reading the node, while others update it too.
	streak = 4
)

// beaten waits before the next attempt after another client has changed the node first. The refusal took the given
// time.
//
// Of all overlapping attempts, one succeeds. Each of the others costs the server a wasted read and a wasted write.
// Without pauses the attempts of all clients overlap, so one update of 64 clients costs 64 attempts. Pauses make
// attempts rarer.
//
// The pause is random, because clients that were refused together would otherwise return together. It is measured in
// round trips, because an attempt can be beaten for the length of one, from its read to its write. The round trip to a
// busy server is mostly the queue in front of it, so all clients pause longer when that queue grows, and it shrinks. A
// fixed pause would suit only one speed of servers.
//
// The pause doubles, because nobody knows how many clients there are. But an unlucky caller would then wait ever longer
// while others are served again and again, so the doubling stops, and a caller that has been refused often returns
// sooner than the rest. It still doesn't return immediately, because if there are too many clients for the server, all
// of them have been refused often.
//
// A client without rivals is never refused, and never pauses.
func (w *write) beaten(ctx context.Context, took time.Duration) {
	longest := min(firstPause*took<<min(w.refusals, doublings), longestPause)
	if w.refusals >= patience {
		longest /= 4
	}
	w.refusals++
	_ = session.Sleep(ctx, time.Duration(rand.Float64()*float64(longest))) // the read checks ctx
}
