package cache

import (
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// request is one request on its way.
type request struct {
	kind    requestKind
	epoch   int
	task            // of a read
	nodes   []*node // of a rearm
	since   int64
	late    bool // since was made earlier after it was sent
	waiters []*waiter
}

type requestKind int

const (
	reading requestKind = iota
	probing             // of the root, by exists
	rearming
	syncing
	removing
)

// answered handles the answer to a request.
func (e *engine) answered(r *request, a *session.Answer) {
	switch {
	case session.Unanswered(a.Err), errors.Is(a.Err, zkrecipes.ErrLost), a.Err != nil && a.Zxid == 0 && !errors.Is(a.Err, session.ErrTooLarge):
		e.rest = e.rest || a.Zxid > 0 // the server asks to send it later
		e.unanswered(r, a.Err)
		return
	case e.isBehind(r, a.Zxid):
		e.unanswered(r, errBehind)
		return
	case a.Zxid > 0 && a.Sent.After(e.heard):
		e.heard = a.Sent
	}
	switch r.kind {
	case reading, probing:
		e.read(r, a)
	case rearming:
		e.rearmed(r, a)
	case syncing:
		if len(r.waiters) > 0 {
			e.verify()
		}
		for _, w := range r.waiters {
			w.round = e.round + 1 // the one that is active began before
		}
	case removing:
	}
}

var errBehind = errors.New("the server is behind")

// isBehind reports that the server does not know yet what another server told before. Such an answer is dropped, so that no entry
// ever goes back in time. The next requests go out behind a sync. If the server is still behind after that, the ensemble has lost
// transactions, because it was restored from a backup. Then everything is read again.
func (e *engine) isBehind(r *request, zxid int64) bool {
	switch {
	case zxid == 0:
		return false
	case zxid >= e.zxid:
		if e.zxid == 0 {
			e.verified, e.verifies = zxid, zxid
		}
		e.zxid = zxid
		return false
	case r.kind == syncing:
		e.zxid, e.verified, e.verifies, e.since = zxid, zxid, zxid, min(zxid, e.since)
		e.root.all(func(n *node) {
			for p := range n.parts {
				if n.parts[p]&asked != 0 || n.known && e.has(n, p) {
					e.spoil(n, p, stale, e.parity)
				}
			}
		})
		return false
	default:
		e.behind, e.rest = true, true
		return true
	}
}

// unanswered puts back what was asked for.
func (e *engine) unanswered(r *request, err error) {
	switch r.kind {
	case reading, probing:
		if r.node.parts[r.part]&asked != 0 {
			e.askAgain(r.node, r.part, stale)
		}
	case rearming:
		e.unarmed(r, err)
	case syncing: // if the server is behind, the next answer shows that again
		for _, w := range r.waiters {
			w.asked = false
		}
	case removing:
	}
}

// batch returns what there is to send, within the window.
func (e *engine) batch() *session.Batch {
	b := e.feed.Batch()
	if !e.connected || e.rest || e.err != nil {
		return b
	}
	e.addSync(b)
	window := e.cache.config.window
	if e.large > 0 {
		window = min(window, max(4, inFlight/e.large))
	}
	if e.inflight > window/2 {
		window = 0 // many requests in one write cost both sides less than many writes
	}
	for e.inflight < window && len(e.reads) > 0 {
		t := e.reads[0]
		e.reads = e.reads[1:]
		if t.node.parts[t.part]&(stale|asked) == stale {
			e.addRead(b, t)
		}
	}
	if len(e.reads) == 0 {
		e.reads = nil
	}
	for e.inflight < window && len(e.bares) > 0 && (len(e.reads) == 0 || len(e.bares) >= manyBare) {
		e.addRearm(b)
	}
	return b
}

const (
	inFlight = 4 << 20 // bytes of answers that may be on their way, more or less
	manyBare = 1000    // nodes that are worth a request
)

func (e *engine) request(kind requestKind) *request {
	e.inflight++
	return &request{kind: kind, epoch: e.epoch}
}

func (e *engine) addSync(b *session.Batch) {
	var waiting []*waiter
	busy := e.finished < e.verifyBy || slices.ContainsFunc(e.waiters, func(w *waiter) bool { return w.asked && w.round == 0 })
	for _, w := range e.waiters {
		if w.round == 0 && !busy { // calls that come meanwhile share the next sync, and what is verified after it
			w.asked = true
			waiting = append(waiting, w)
		}
	}
	if e.behind || len(waiting) > 0 {
		r := e.request(syncing)
		r.waiters, e.behind = waiting, false
		b.Sync(r)
	}
}

func (e *engine) addRead(b *session.Batch, t task) {
	t.node.parts[t.part] |= asked
	r := e.request(reading)
	r.task = t
	path := e.pathOf(t.node)
	switch {
	case t.part == list:
		b.List(path, r)
	case t.node == e.root && !e.root.known && e.readOnly && !e.present:
		r.kind = probing
		b.Exists(path, r)
	default:
		e.present = e.present && t.node != e.root
		b.Get(path, r)
	}
}
