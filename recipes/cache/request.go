package cache

import "github.com/zkrecipes/zkrecipes/internal/session"

// request is one request in flight.
type request struct {
	kind    requestKind
	epoch   int
	part    part     // for a read
	rewatch *rewatch // for rewatching
	waiters waiters  // for a sync
}

type requestKind int

const (
	reading requestKind = iota
	probing             // of a missing root, by exists, if the server cannot set watches without a read
	rewatching
	syncing
	removing
)

// request returns a request that is about to be sent.
func (e *engine) request(kind requestKind) *request {
	e.inflight++
	return &request{kind: kind, epoch: e.epoch}
}

const maxAnswerBytes = 4 << 20 // bytes of answers that may be in flight, roughly

// batch returns the requests to send, within the window.
func (e *engine) batch() *session.Batch {
	b := e.feed.Batch()
	if !e.connected || e.mustRest || e.err != nil {
		return b
	}
	e.addSync(b)
	window := e.cache.config.window
	if e.large > 0 {
		window = min(window, max(4, maxAnswerBytes/e.large))
	}
	if e.inflight > window/2 {
		return b // many requests in one write cost both sides less than many writes
	}
	for e.inflight < window {
		if !e.addRead(b) && !e.addRewatch(b) {
			break
		}
	}
	return b
}

func (e *engine) addSync(b *session.Batch) {
	var asking waiters
	if !e.rounds.isVerifying() { // calls that arrive in the meantime share the next sync, and what is verified after it
		asking = e.waiters.ask()
	}
	if e.behind || len(asking) > 0 {
		r := e.request(syncing)
		r.waiters, e.behind = asking, false
		b.Sync(r)
	}
}

func (e *engine) addRead(b *session.Batch) bool {
	p, ok := e.plan.read()
	if !ok {
		return false
	}
	r := e.request(reading)
	r.part = p
	path := e.nodes.pathOf(p.node)
	root := p.node == e.nodes.root
	switch {
	case p.of == list:
		b.List(path, r)
	case root && !p.node.known && e.plan.support.lacking && !e.present:
		r.kind = probing
		b.Exists(path, r)
	default:
		e.present = e.present && !root
		b.Get(path, r)
	}
	return true
}
