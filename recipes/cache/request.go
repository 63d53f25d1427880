package cache

import (
	"errors"

	"github.com/go-zookeeper/zk"

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
	waiters []*waiter
	last    bool // of a verification
}

type requestKind int

const (
	reading requestKind = iota
	probing             // of the root, by exists
	rearming
	verifying
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
	case rearming, verifying:
		e.rearmed(r, a)
	case syncing:
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
			e.verified = zxid
		}
		e.zxid = zxid
		return false
	case r.kind == syncing:
		e.zxid, e.verified, e.since = zxid, zxid, min(zxid, e.since)
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
	case verifying:
		e.verify = nil
	case syncing: // if the server is behind, the next answer shows that again
		for _, w := range r.waiters {
			w.asked = false
		}
	case removing:
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
	if e.readOnly {
		e.cache.client.Logger().Info("zookeeper: cache: the server can set watches again", "path", e.path)
		e.readOnly, e.skip, e.skipped = false, 0, 0
	}
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

// rearmed handles the answer to a request that set watches. The events of nodes that have changed came before it.
func (e *engine) rearmed(r *request, a *session.Answer) {
	if a.Err != nil {
		e.cannotRearm()
		e.unanswered(r, a.Err)
		return
	}
	e.canRearm()
	if r.kind == verifying {
		if r.last {
			e.verified = e.verifies
		}
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

// startVerify begins to look for watches that the servers have lost without an event, and to read again what could not be read.
//
// Source: a server takes a watch away, and withholds the event, if the client may not read the node at that moment, since
// 3.8.4 and 3.9.2 (CVE-2024-23944).
func (e *engine) startVerify() {
	if !e.standing || len(e.verify) > 0 {
		return
	}
	e.verifies = e.zxid
	e.root.all(func(n *node) {
		switch {
		case n.failed || e.readOnly && (n.known || n == e.root):
			for p := range n.parts {
				if e.has(n, p) && (n.known || p == data) {
					e.spoil(n, p, stale, e.parity)
				}
			}
		case n.known || n == e.root:
			e.verify = append(e.verify, n)
		}
	})
	if e.readOnly && e.triesToRearm() {
		e.verify = append(e.verify, e.root) // one node will do
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
	if e.inflight == 0 && len(e.verify) > 0 {
		e.addVerify(b)
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
	for _, w := range e.waiters {
		if w.round == 0 && !w.asked {
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

func (e *engine) addVerify(b *session.Batch) {
	w := watchList{room: e.feed.Room()}
	for len(e.verify) > 0 && w.room > 0 {
		n := e.verify[0]
		e.verify = e.verify[1:]
		for p, was := range n.parts {
			if was == 0 && e.has(n, p) && (n.known || n == e.root && p == data) {
				w.add(e, n, p)
			}
		}
	}
	r := e.request(verifying)
	r.last = len(e.verify) == 0
	b.SetWatches(e.verified, w.data, w.missing, w.children, r)
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
