package cache

// plan is what has to be requested from the server: parts to read, and parts whose watches must be set again. It knows
// which requests to set watches are in flight. It has no clock, no lock and no I/O.
type plan struct {
	support support
	dirty   [2]int // parts that are not clean, by the parity of their round

	reads          []part // stale, the oldest first; some may no longer be stale
	unwatchedParts []part // some may no longer be unwatched
	since          int64  // no unwatched part lost its watch before this transaction
	rewatching     map[*rewatch]struct{}
}

// A part is what one watch covers: the data of a node, or the list of its children.
type part struct {
	node *node
	of   int // data or list
}

// These are the values of part.of and the indexes of node.parts.
const (
	data = iota
	list
)

// state is what is known of a part, and what is being done about it, in five bits:
//
//	none              clean: there is nothing to request. The newest read set a watch that has not fired, or the watch
//	                  was set again since. Or the part is not followed, could not be read, or is of a node that was
//	                  found to be gone
//	stale             must be read
//	unwatched         unchanged as far as known, but without a watch; one request sets many watches again
//	stale, asked      being read
//	unwatched, asked  its watch is being set again
//	… asked, again    more is known by now, for example from an event: the answer counts and is shown, and the part is
//	                  read again
//	odd               the number of its round is odd; see rounds
//
// A part that is not clean is dirty. It belongs to the active round or to the next one; one bit distinguishes them.
type state uint8

const clean state = 0

const (
	stale state = 1 << iota
	unwatched
	asked
	again
	odd
)

// state returns a pointer to the state of the part.
func (p part) state() *state { return &p.node.parts[p.of] }

// parity is 1 if the number of a round is odd.
type parity uint8

func (s state) parity() parity { return parity(s & odd / odd) }

// rewatch is one request to set watches.
type rewatch struct {
	parts []part
	since int64 // the server immediately reports what has changed after this transaction; see restart
	moved bool  // since was moved back after the request was sent
}

func (pl *plan) pending() int { return pl.dirty[0] + pl.dirty[1] }

// restart forgets all requests, because there is a new connection and no watch. The caller then re-enters what each
// part needs: see engine.begin. restart returns the transaction since which a part may have been without a watch. For
// all parts that need only their watches, the server is asked once what has changed after that transaction, so it is
// the earliest of these three:
//
//   - A clean part had its watch on the previous connection. All events up to zxid, the latest transaction that an
//     answer has reported, were handled, so the part has not changed up to then.
//   - An unwatched part lost its watch before that connection ended: since pl.since, and no request for it was sent.
//   - A part whose watch was being set again had lost it since r.since. The answer never came, so nothing shows that
//     the watch was set.
func (pl *plan) restart(zxid int64) (since int64) {
	since = zxid
	if len(pl.unwatchedParts) > 0 {
		since = min(since, pl.since)
	}
	for r := range pl.rewatching {
		since = min(since, r.since)
	}
	*pl = plan{support: pl.support, rewatching: map[*rewatch]struct{}{}}
	return since
}

// markStale makes a part stale.
func (pl *plan) markStale(p part, in parity) { pl.enter(p, stale, in) }

// markUnwatched makes a clean or new part unwatched: nothing is known to have changed since the transaction. If the
// server cannot set watches without a read, the part becomes stale.
func (pl *plan) markUnwatched(p part, since int64, in parity) {
	if pl.support.lacking {
		pl.enter(p, stale, in)
		return
	}
	pl.rewind(since)
	pl.enter(p, unwatched, in)
}

// rewind moves pl.since back to an earlier transaction. If no part is unwatched, it sets pl.since, even to a later one.
func (pl *plan) rewind(since int64) {
	if len(pl.unwatchedParts) == 0 || since < pl.since {
		pl.since = since
	}
}

// enter makes a part stale or unwatched. The part joins a round, unless it already belongs to one.
func (pl *plan) enter(p part, how state, in parity) {
	s := p.state()
	switch {
	case *s&asked != 0:
		*s |= again
	case *s&(how|stale) != 0:
	default:
		if *s&unwatched == 0 {
			pl.dirty[in]++
			*s = state(in) * odd
		}
		pl.put(p, how)
	}
}

// put queues a dirty part.
func (pl *plan) put(p part, how state) {
	s := p.state()
	*s = *s&odd | how
	if how == stale {
		pl.reads = append(pl.reads, p)
	} else {
		pl.unwatchedParts = append(pl.unwatchedParts, p)
	}
}

// read returns the next part to be read, and marks it as requested.
func (pl *plan) read() (part, bool) { return take(&pl.reads, stale) }

// rewatch returns the next request to set watches, or nil. It takes parts until add returns false because the request
// is full.
func (pl *plan) rewatch(add func(part) (room bool)) *rewatch {
	r := &rewatch{since: pl.since}
	for room := true; room; {
		p, ok := take(&pl.unwatchedParts, unwatched)
		if !ok {
			break
		}
		r.parts = append(r.parts, p)
		room = add(p)
	}
	if len(r.parts) == 0 {
		return nil
	}
	pl.rewatching[r] = struct{}{}
	return r
}

// take returns the first part of a queue whose state still matches the queue, and marks it as requested.
func take(queue *[]part, how state) (part, bool) {
	for len(*queue) > 0 {
		p := (*queue)[0]
		*queue = (*queue)[1:]
		if s := p.state(); *s&(how|asked) == how {
			*s |= asked
			return p, true
		}
	}
	*queue = nil // frees the memory
	return part{}, false
}

// answered records that a part was read. The part is clean, unless it became stale in the meantime, in which case it
// joins the given round. answered returns the round that the part belonged to, for whatever is found because of it.
func (pl *plan) answered(p part, next parity) (in parity) {
	s := p.state()
	was := *s
	pl.clear(p)
	if was&again != 0 {
		pl.markStale(p, next)
	}
	return was.parity()
}

// clear makes a part clean.
func (pl *plan) clear(p part) {
	s := p.state()
	if *s&(stale|unwatched) != 0 {
		pl.dirty[s.parity()]--
	}
	*s = clean
}

// retry requeues a part that was being read. The part stays in its round.
func (pl *plan) retry(p part) {
	if *p.state()&asked != 0 {
		pl.put(p, stale)
	}
}

// rewatched records that a request to set watches is over: its parts become clean, or, without an answer that counts,
// unwatched or stale. The events of parts that had changed came before the answer, so such a part is stale. All parts
// stay in their rounds.
func (pl *plan) rewatched(r *rewatch, how state) {
	delete(pl.rewatching, r)
	if how == unwatched {
		pl.rewind(r.since)
	}
	for _, p := range r.parts {
		switch s := *p.state(); {
		case s&(asked|unwatched) != asked|unwatched: // the node is gone
		case s&again != 0:
			pl.put(p, stale)
		case how == clean:
			pl.clear(p)
		default:
			pl.put(p, how)
		}
	}
}

// distrustInFlight marks the requests in flight that named a later transaction than since: their parts may have been
// without a watch since then, so their answers will not count.
func (pl *plan) distrustInFlight(since int64) {
	for r := range pl.rewatching {
		if r.since > since {
			r.since, r.moved = since, true
		}
	}
}

// readAll records that the server cannot set watches without a read, so all unwatched parts become stale. It reports
// whether that is news.
func (pl *plan) readAll() bool {
	if pl.support.lacking {
		return false
	}
	pl.support.lacking = true
	unwatchedParts := pl.unwatchedParts
	pl.unwatchedParts = nil
	for _, p := range unwatchedParts {
		if *p.state()&(unwatched|asked) == unwatched {
			pl.put(p, stale)
		}
	}
	return true
}
