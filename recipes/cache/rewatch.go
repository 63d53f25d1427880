package cache

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// addRewatch sets watches without a read. This happens on each new connection; after the first read of a leaf, or of a
// root that is missing; and, because a server may lose a watch silently, at each recheck and Sync. A request names one
// transaction for all its parts, the earliest since which any of them may lack its watch: see plan.restart.
func (e *engine) addRewatch(b *session.Batch) bool {
	w := watchList{room: e.feed.Room()}
	rewatch := e.plan.rewatch(func(p part) bool {
		w.add(p, e.nodes.pathOf(p.node))
		return w.room > 0
	})
	if rewatch == nil {
		return false
	}
	r := e.request(rewatching)
	r.rewatch = rewatch
	b.SetWatches(rewatch.since, w.data, w.missing, w.children, r)
	return true
}

// watchList holds the paths of a request to set watches.
type watchList struct {
	room                    int
	data, missing, children []string
}

func (w *watchList) add(p part, path string) {
	w.room -= 4 + len(path)
	switch {
	case p.of == list:
		w.children = append(w.children, path)
	case p.node.known:
		w.data = append(w.data, path)
	default:
		w.missing = append(w.missing, path)
	}
}

// rewatched handles the answer to a request to set watches. The events of nodes that have changed came before it.
func (e *engine) rewatched(r *request, a *session.Answer) {
	switch {
	case a.Err != nil:
		e.cannotRewatch()
		e.notRewatched(r.rewatch, a.Err)
		return
	case e.plan.support.noteSuccess():
		e.cache.client.Logger().Info("zookeeper: cache: the server supports restoring watches again", "path", e.nodes.path)
	}
	if r.rewatch.moved {
		e.plan.rewatched(r.rewatch, unwatched)
	} else {
		e.plan.rewatched(r.rewatch, clean)
	}
}

// notRewatched handles a request to set watches that got no answer, or none that counts.
func (e *engine) notRewatched(r *rewatch, err error) {
	if errors.Is(err, zk.ErrConnectionClosed) && e.plan.support.hungUp(e.epoch) {
		e.cannotRewatch()
	}
	if e.plan.support.lacking || errors.Is(err, errBehind) {
		e.plan.rewatched(r, stale)
	} else {
		e.plan.rewatched(r, unwatched)
	}
}

// cannotRewatch is called when the server cannot set watches without a read, or hangs up on the attempt.
func (e *engine) cannotRewatch() {
	if e.plan.readAll() {
		e.cache.client.Logger().Info(
			"zookeeper: cache: the server cannot restore watches, reading all nodes again",
			"path", e.nodes.path)
	}
}

// recheck verifies the cache without a caller.
func (e *engine) recheck() {
	if !e.rounds.isVerifying() {
		e.plan.support.recheck()
		e.verify()
	}
}

// verify looks for watches that the servers have lost without an event since the latest verification that has ended,
// and rereads what could not be read, within the next round. It is called at each recheck, and when the sync of a Sync
// is answered. A part that is already being read is left alone: answers arrive in order, so its own is newer than that
// of the sync.
//
// Source: since 3.8.4 and 3.9.2 (CVE-2024-23944), a server removes a watch and withholds its event if the client may
// not read the node at that moment. Since 3.8.7 and 3.9.6, DataTree.setWatches withholds it as well.
func (e *engine) verify() {
	since, next := e.rounds.verifiedZxid, e.rounds.next()
	e.rounds.verify(e.zxid)
	e.plan.distrustInFlight(since)
	e.nodes.root.allParts(func(p part) {
		switch s := *p.state(); {
		case s&stale != 0:
		case p == e.nodes.rootData() && !p.node.known: // it may exist by now, but only a read says so if it is closed
			e.plan.markStale(p, next)
		case s&asked != 0:
		case e.nodes.hasFailed(p):
			e.plan.markStale(p, next)
		case e.nodes.watched(p):
			e.plan.markUnwatched(p, since, next)
		}
	})
}
