package client

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// quietPause is how long to wait before checking again for a quiet moment.
const quietPause = 100 * time.Millisecond

// rebalance moves the client to the server that it has drawn, until the client is closed.
//
// A server that restarts loses its clients to the others, and the last one to restart ends up with none. Each client
// that has lost its connection draws again among all servers, and moves at a random moment, which is after the restarts
// if there is enough time. In the end each has therefore drawn uniformly, whatever the order of the restarts, without
// knowing how many clients a server has. If the servers change meanwhile, clients move with the same aim; see
// destination.
func (c *core) rebalance() {
	due := time.NewTimer(0)
	due.Stop()
	var until time.Time // when to give up: a client that is never quiet does not move
	for {
		select {
		case <-c.ctx.Done():
			due.Stop()
			return
		case <-c.hosts.moves:
			wait := rand.N(c.opts.Rebalance)
			due.Reset(wait)
			until = time.Now().Add(wait + c.opts.Rebalance)
		case <-due.C:
			switch {
			case c.move():
			case time.Now().Before(until):
				due.Reset(quietPause)
			default:
				c.hosts.giveUp()
			}
		}
	}
}

// move moves to the server that was drawn, which may be the current one. It reports false if this is not a quiet
// moment.
func (c *core) move() bool {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if !s.Report().Up {
		return false
	}
	if !c.hosts.aim() {
		return true
	}
	moved := s.Move()
	if !moved {
		c.hosts.stay()
	}
	return moved
}

// draw draws a server to move to, after a connection was lost.
func (h *hosts) draw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drawAmong(h.kin())
}

// drawAmong draws a server among the names. The caller holds mu.
func (h *hosts) drawAmong(names []string) {
	some := h.liked(names)
	if all := h.shuffled(some); len(all) > 0 {
		h.moveTo(all[0])
	} else if len(some) > 0 { // they may have addresses by the next round
		h.moveTo(lifetime.Server{Name: some[rand.N(len(some))]})
	}
}

// seeksFavorite reports whether there is a server that the user prefers, which may be back by now, and the client is at
// another one and does not move anyway. The caller holds mu.
func (h *hosts) seeksFavorite() bool {
	return h.target == (lifetime.Server{}) && !h.preferred[h.good.Name] && len(h.favorites(h.kin())) > 0
}

// kin returns the members of the ensemble or the other names, whichever group the server that last gave the session
// belongs to: the other group may lead nowhere. A former member still serves, and clients may return to it, but it
// leads to the current members. The caller holds mu.
func (h *hosts) kin() []string {
	if slices.Contains(h.members, h.good.Name) || h.left[h.good.Name] {
		return h.members
	}
	return without(h.names, h.members)
}

// redraw draws another server to move to if the balance requires it when the servers change. A client whose server was
// not among the old ones has found its way to that server without them, and stays. The caller holds mu.
func (h *hosts) redraw(was, now []string) {
	at := cmp.Or(h.target, h.good)
	if !slices.Contains(was, at.Name) || len(now) == 0 || sameNames(was, now) {
		return
	}
	if name := destination(h.liked(was), h.liked(now), at.Name); name != at.Name {
		h.moveTo(lifetime.Server{Name: name})
	}
}

// moveTo records where the client moves to. The caller holds mu.
func (h *hosts) moveTo(server lifetime.Server) {
	if h.moves == nil {
		return
	}
	h.target = server
	select {
	case h.moves <- struct{}{}:
	default:
	}
}

// liked returns the names that the user prefers, or all if there are none. The caller holds mu.
func (h *hosts) liked(names []string) []string {
	if some := h.favorites(names); len(some) > 0 {
		return some
	}
	return names
}

// favorites returns the names that the user prefers. The caller holds mu.
func (h *hosts) favorites(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !h.preferred[name] })
}

// destination returns the server for a client of the server at when the servers change. If the old servers had equally
// many clients each, so do the new ones, and no more clients move than that requires: all clients of a server that is
// gone and, if there are more servers than before, some of each server's clients to the new ones.
//
// Source: HostConnectionManager.updateServerList of the Java client (ZOOKEEPER-1355).
func destination(was, now []string, at string) string {
	kept, added := without(now, without(now, was)), without(now, was)
	stays, grown := slices.Contains(now, at), len(now) > len(was)
	among := added
	switch {
	case !slices.Contains(was, at): // the user prefers others to it
		among = now
	case stays && (!grown || rand.Float64() < share(len(was), len(now))):
		return at
	case !grown && rand.Float64() < share(len(kept)*(len(was)-len(now)), len(now)*(len(was)-len(kept))):
		among = kept
	}
	return among[rand.N(len(among))]
}

func share(part, whole int) float64 { return float64(part) / float64(whole) }

// aim makes the next round begin with the server to move to. It reports false if that is the current one, or there is
// none.
func (h *hosts) aim() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first, h.target = h.target, lifetime.Server{}
	if h.first == (lifetime.Server{}) || matches(h.first, h.good) {
		h.first = lifetime.Server{}
		return false
	}
	return true
}

// stay undoes aim, unless another server has been drawn since.
func (h *hosts) stay() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first, h.target = lifetime.Server{}, cmp.Or(h.target, h.first)
}

// giveUp forgets the target, because the client stays where it is: a later change of the servers must not take it to be
// at the target. A target that has just been drawn is kept.
func (h *hosts) giveUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.moves) == 0 {
		h.target = lifetime.Server{}
	}
}

// matches reports whether the server is the one that was drawn.
func matches(drawn, server lifetime.Server) bool {
	return drawn.Name == server.Name && (drawn.Address == "" || drawn.Address == server.Address)
}

// next is order for a round. If the client moves, the server that it moves to comes first, followed by the one that it
// leaves.
func (h *hosts) next() []lifetime.Server {
	all := h.order()
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(all, func(server lifetime.Server) bool { return matches(h.first, server) }); i >= 0 {
		for _, server := range []lifetime.Server{h.good, all[i]} {
			if i := slices.Index(all, server); i > 0 {
				all = slices.Insert(slices.Delete(all, i, i+1), 0, server)
			}
		}
	}
	h.first = lifetime.Server{}
	return all
}
