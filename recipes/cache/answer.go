package cache

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// answered handles the answer to a request of the current connection; hear drops those of earlier ones.
func (e *engine) answered(r *request, a *session.Answer) {
	switch {
	case session.Repeatable(a.Err), errors.Is(a.Err, zkrecipes.ErrLost),
		a.Err != nil && a.Zxid == 0 && !errors.Is(a.Err, zkrecipes.ErrTooLarge), a.Err != nil && r.kind == syncing:
		// The server asks to retry later, or may not have caught up, or the connection is gone, and the next one ends the
		// pause.
		e.mustRest = true
		e.unanswered(r, a.Err)
		return
	case e.noteZxid(r, a.Zxid):
		e.unanswered(r, errBehind)
		return
	case a.Zxid > 0 && a.Sent.After(e.lastContact):
		e.lastContact = a.Sent
	}
	switch r.kind {
	case reading, probing:
		e.read(r, a)
	case rewatching:
		e.rewatched(r, a)
	case syncing:
		if len(r.waiters) > 0 {
			e.verify()
		}
		r.waiters.synced(e.rounds.newest + 1) // the active one began before
	case removing:
	}
}

var errBehind = errors.New("the server is behind")

// noteZxid sets e.zxid from an answer. No other function does, and events do not count, because those of one
// transaction arrive one after another. All events up to e.zxid have therefore been handled.
//
// noteZxid reports whether the server is behind what another one reported before. ZooKeeper refuses a client that is
// ahead, unless the client had to connect without a zxid. Such an answer is dropped, so that no entry goes back in
// time, and the next requests are sent behind a sync. If the server is still behind after that, the ensemble has lost
// transactions, because it was restored from a backup. Then everything is reread, and entries go back.
func (e *engine) noteZxid(r *request, zxid int64) (behind bool) {
	switch {
	case zxid == 0: // no server has answered
		return false
	case zxid >= e.zxid:
		if e.zxid == 0 {
			e.rounds.reset(zxid)
		}
		e.zxid = zxid
		return false
	case r.kind == syncing:
		e.zxid = zxid
		e.rounds.reset(zxid)
		e.plan.rewind(zxid)
		e.nodes.root.allParts(func(p part) {
			if *p.state()&asked != 0 || p.node.known && e.nodes.follows(p) {
				e.plan.markStale(p, e.rounds.next())
			}
		})
		return false
	default:
		e.behind, e.mustRest = true, true
		return true
	}
}

// unanswered puts back what was requested.
func (e *engine) unanswered(r *request, err error) {
	switch r.kind {
	case reading, probing:
		e.plan.retry(r.part)
	case rewatching:
		e.notRewatched(r.rewatch, err)
	case syncing: // if the server is behind, the next answer shows that again
		r.waiters.retry()
	case removing:
	}
}

// read handles the answer to a read. What is found because of it belongs to the same round.
func (e *engine) read(r *request, a *session.Answer) {
	p := r.part
	if *p.state()&asked == 0 {
		return // the node was found to be gone in the meantime
	}
	in := e.plan.answered(p, e.rounds.next())
	switch {
	case r.kind == probing && errors.Is(a.Err, zk.ErrNoNode): // and now there is a watch
	case errors.Is(a.Err, zk.ErrNoNode):
		e.nodes.gone(p.node)
		if p.node == e.nodes.root {
			e.plan.markUnwatched(e.nodes.rootData(), e.zxid, in)
		}
	case a.Err != nil:
		e.unreadable(p, a.Err, in)
	case r.kind == probing:
		e.present = true
		e.plan.markStale(p, in)
	case p.of == list:
		e.listed(p.node, a, in)
	default:
		e.got(p.node, a, in)
	}
	if e.err == nil {
		e.err = e.nodes.excess(&e.cache.config)
	}
}

func (e *engine) got(n *node, a *session.Answer, in parity) {
	kids := part{n, list}
	switch e.nodes.got(n, a.Data, &a.Stat) {
	case listEmpty:
		e.plan.markUnwatched(kids, a.Zxid, in)
	case listUnknown:
		e.plan.markStale(kids, in)
	case listChanged:
		if *kids.state() == clean {
			e.plan.markStale(kids, in)
		}
	case nothingNew:
	}
}

func (e *engine) listed(n *node, a *session.Answer, in parity) {
	e.nodes.listed(n, a.Names, &a.Stat)
	for _, kid := range n.children() { // those that are new, or were deleted and exist again
		if p := (part{kid, data}); !kid.known && *p.state() == clean {
			e.plan.markStale(p, in)
		}
	}
}

// unreadable handles a part that cannot be read. If this is the first thing known about a node, its list is tried as
// well.
func (e *engine) unreadable(p part, err error, in parity) {
	kids := part{p.node, list}
	if e.nodes.fail(p, err) && p.of == data && e.nodes.follows(kids) {
		e.plan.markStale(kids, in)
	}
}
