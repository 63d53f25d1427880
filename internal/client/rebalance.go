package client

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// quietPause is how long to wait before the next look for a quiet moment.
const quietPause = 100 * time.Millisecond

// rebalance moves the client to a random server after a connection was lost, until the client is closed.
//
// A server that restarts loses its clients to the others, and the last one to restart ends up with none. Each client that has lost its
// connection draws again among all servers, at a random moment, which is after the restarts if there is time enough. So in the end each
// has drawn uniformly, whatever the order of the restarts, and need not know how many clients a server has.
func (c *core) rebalance() {
	due := time.NewTimer(0)
	due.Stop()
	var until time.Time // when to give up: a client that is never quiet does not move
	for {
		select {
		case <-c.ctx.Done():
			due.Stop()
			return
		case <-c.disturbed:
			wait := rand.N(c.opts.Rebalance)
			due.Reset(wait)
			until = time.Now().Add(wait + c.opts.Rebalance)
		case <-due.C:
			if !c.move() && time.Now().Before(until) {
				due.Reset(quietPause)
			}
		}
	}
}

// disturb notes that a connection was lost. A client that has moved stays where it is.
func (c *core) disturb(why error) {
	if errors.Is(why, lifetime.ErrMoves) {
		return
	}
	select {
	case c.disturbed <- struct{}{}:
	default:
	}
}

// move moves to a random server, which may be the present one. It reports false if this is no quiet moment.
func (c *core) move() bool {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if !s.Report().Up {
		return false
	}
	if !c.hosts.prefer() {
		return true
	}
	moved := s.Move()
	if !moved {
		c.hosts.preferNone()
	}
	return moved
}

// prefer draws a server that the next round begins with. It reports false if that is the present one. The draw is among the members of
// the ensemble or among the other names, whichever the present one belongs to: the others may lead nowhere.
func (h *hosts) prefer() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.members
	if !slices.Contains(names, h.good.Name) {
		names = without(h.names, h.members)
	}
	all := h.shuffled(names)
	if len(all) == 0 || all[0] == h.good {
		return false
	}
	h.preferred = all[0]
	return true
}

func (h *hosts) preferNone() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.preferred = lifetime.Server{}
}

// next is order for a round. If a server is preferred, it comes first, and then the one that the client comes from.
func (h *hosts) next() []lifetime.Server {
	all := h.order()
	h.mu.Lock()
	defer h.mu.Unlock()
	if preferred := h.preferred; slices.Contains(all, preferred) {
		for _, server := range []lifetime.Server{h.good, preferred} {
			if i := slices.Index(all, server); i > 0 {
				all = slices.Insert(slices.Delete(all, i, i+1), 0, server)
			}
		}
	}
	h.preferred = lifetime.Server{}
	return all
}
