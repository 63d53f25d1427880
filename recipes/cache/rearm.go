package cache

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Watches are set again after each connection, without a reading where nothing is known to have happened. At each recheck they
// are set again as well, because a server may have lost one in silence. One request takes many paths. The server sends an event for
// each node that has changed since.

func (e *engine) addRearm(b *session.Batch) {
	r := e.request(rearming)
	r.since = e.since
	w := watchList{room: e.feed.Room()}
	for len(e.bares) > 0 && w.room > 0 {
		n := e.bares[0]
		e.bares = e.bares[1:]
		for p, was := range n.parts {
			if was&(bare|asked) == bare {
				n.parts[p] |= asked
				w.add(e, n, p)
				r.nodes = append(r.nodes, n)
			}
		}
	}
	if len(e.bares) == 0 {
		e.bares = nil
	}
	if len(r.nodes) == 0 {
		e.inflight--
		return
	}
	e.rearming[r] = struct{}{}
	b.SetWatches(r.since, w.data, w.missing, w.children, r)
}

// watchList is the paths of a request that sets watches.
type watchList struct {
	room                    int
	data, missing, children []string
}

func (w *watchList) add(e *engine, n *node, p int) {
	path := e.pathOf(n)
	w.room -= 4 + len(path)
	switch {
	case p == list:
		w.children = append(w.children, path)
	case n.known:
		w.data = append(w.data, path)
	default:
		w.missing = append(w.missing, path)
	}
}

// rearmed handles the answer to a request that set watches. The events of nodes that have changed came before it.
func (e *engine) rearmed(r *request, a *session.Answer) {
	if a.Err != nil {
		e.cannotRearm()
		e.unanswered(r, a.Err)
		return
	}
	e.canRearm()
	if r.late {
		e.unarmed(r, nil)
		return
	}
	delete(e.rearming, r)
	for _, n := range r.nodes {
		for p, was := range n.parts {
			switch {
			case was&(asked|bare) != asked|bare:
			case was&again != 0:
				e.askAgain(n, p, stale) // in the same round
			default:
				e.settle(n, p)
			}
		}
	}
}

// unarmed handles that a request to set watches was not answered.
func (e *engine) unarmed(r *request, err error) {
	delete(e.rearming, r)
	if errors.Is(err, zk.ErrConnectionClosed) && e.hangups[2] != e.epoch {
		e.hangups = [3]int{e.hangups[1], e.hangups[2], e.epoch}
		if e.hangups[0] > 0 {
			e.cannotRearm()
		}
	}
	how := bare
	if e.readOnly || errors.Is(err, errBehind) {
		how = stale
	}
	if len(e.bares) == 0 || r.since < e.since {
		e.since = r.since
	}
	for _, n := range r.nodes {
		for p, was := range n.parts {
			if was&(asked|bare) == asked|bare {
				e.askAgain(n, p, how)
			}
		}
	}
}

// cannotRearm is called when the server cannot set watches without a reading, or hangs up on it.
func (e *engine) cannotRearm() {
	if e.readOnly {
		return
	}
	e.cache.client.Logger().Info("zookeeper: cache: the server cannot set watches again, so that all nodes are read again", "path", e.path)
	e.readOnly = true
	for _, n := range e.bares {
		for p, was := range n.parts {
			if was&bare != 0 {
				e.spoil(n, p, stale, was&odd)
			}
		}
	}
	e.bares = nil
}

// canRearm is called when the server has set watches.
func (e *engine) canRearm() {
	e.hangups = [3]int{}
	if e.readOnly || e.skipped > 0 {
		e.cache.client.Logger().Info("zookeeper: cache: the server can set watches again", "path", e.path)
		e.readOnly, e.skip, e.skipped = false, 0, 0
	}
}

// recheck verifies the cache without a caller.
func (e *engine) recheck() {
	if e.finished < e.verifyBy {
		return
	}
	if e.readOnly && e.triesToRearm() {
		e.readOnly = false
	}
	e.verify()
}

// triesToRearm reports whether this recheck is to try whether the server can set watches after all: its connections may only
// have been bad. To try may cost the connection, so each time twice as many rechecks are skipped.
func (e *engine) triesToRearm() bool {
	if e.skip > 0 {
		e.skip--
		return false
	}
	e.skipped = 2*e.skipped + 1
	e.skip = e.skipped
	return true
}

// verify looks for watches that the servers have lost without an event, and reads again what could not be read, within the next round.
// What a request on its way reads is new enough: its answer comes after the sync that brought this about.
//
// Source: a server takes a watch away, and withholds the event, if the client may not read the node at that moment, since
// 3.8.4 and 3.9.2 (CVE-2024-23944). DataTree.setWatches checks no access list.
func (e *engine) verify() {
	e.verifies, e.verifyBy = e.zxid, e.round+1
	for r := range e.rearming {
		if r.since > e.verified {
			r.since, r.late = e.verified, true
		}
	}
	e.root.all(func(n *node) {
		for p, was := range n.parts {
			switch {
			case was&(stale|asked) != 0, !e.has(n, p):
			case e.hasFailed(n, p):
				e.spoil(n, p, stale, e.parity)
			case n.known, n == e.root && p == data:
				e.bare(n, p, e.verified, e.parity)
			}
		}
	})
}
