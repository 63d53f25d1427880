package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// proof is the arithmetic behind [Session.ValidUntil], without clock and without I/O.
//
// The leader of the ensemble decides when a session expires, from what its followers report. In its answer to every ping of
// the leader (two a tick), a follower says which sessions it has heard from. An answer of a follower proves nothing by
// itself. Neither does an answer of the leader: the contact may not have been reported yet when the follower is cut off. But
// a request that the leader served proves that all contacts at least half a tick older were reported, since report and
// request travel the same connection, in order. Hence
//
//	p = when the newest request was sent that the leader has served and answered
//	c = when the newest request was sent whose answer, by whatever server, had come by p - lag
//	valid until c + timeout - margin
//
// The lag is more than half a tick, since the leader that served the request may have been replaced. It goes on answering for
// up to a tick and a half.
//
// The connect answer for a new session proves that request, because a quorum has agreed to the session. The connect answer
// for a resumed session does not. The leader touches the session when it gives it, but it may have been replaced without
// knowing it. Then it goes on answering for up to a tick and a half, while its successor counts from its own beginning. A
// write that is answered afterwards shows that no successor had begun when the session was touched.
//
// A server that resumes a session may grant another timeout, if it is configured differently. The leader counts with that
// from then on, also downwards, whether or not its answer arrives. The next leader goes back to the timeout of the
// transaction which created the session. So the least of all grants counts, and a grant that is not known counts as the
// least that it can be:
//
//   - The client asks for what it was granted. The server keeps that within its limits, so only its maximum can make it less.
//   - An operator who may lower the maximum below that says so with WithLeastTimeout. That is the bound.
//   - Otherwise the bound is the least grant. A smaller one would end holds at each server that is slow to answer.
//   - The bound counts from the sending, since no server touches a session before it is asked to.
//   - If a connection ends without an answer, however it ends, that proves nothing. A follower asks the leader before it
//     answers (Learner.validateSession of ZooKeeper), and the leader counts from then on (Leader.revalidateSession). If the
//     follower loses its leader before it hears from it, it ends the connection in order.
//   - Only an answer replaces what is not known. docs/design.md says what remains.
type proof struct {
	timeout time.Duration // negotiated with the newest connect request
	least   time.Duration // ever negotiated
	lag     time.Duration // between a contact and p, for the contact to count
	margin  time.Duration

	contact  time.Time // c
	resumed  time.Time // when the newest connect request was sent that resumed the session
	heard    time.Time // when the newest request of any kind was sent that has been answered
	contacts []contact // answered requests that no p confirms yet, by time of answer

	doubt time.Time // up to when the resumptions without an answer leave the session alive; zero if there is none
}

type contact struct{ sent, answered time.Time }

// witness is the server that stands behind an answer.
type witness int

const (
	anyServer witness = iota
	leader            // or a server that takes itself for the leader
	quorum            // a write that was applied
)

// witnessOf says which server stands behind an answer to the opcode.
func witnessOf(op, code int32) witness {
	switch op {
	case wire.OpSync:
		return leader
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		if code == 0 {
			return quorum
		}
		return leader
	default:
		return anyServer
	}
}

// connected takes in a connect answer.
func (p *proof) connected(sent, at time.Time, timeout, lag, margin time.Duration) {
	p.timeout, p.lag, p.margin = timeout, lag, margin
	p.least = min(timeout, cmp.Or(p.least, timeout))
	if p.contact.IsZero() {
		p.contact = sent
	} else {
		p.resumed = sent
	}
	p.doubt = time.Time{}
	p.answered(sent, at, anyServer)
}

// asks takes in that a resumption is being sent, which leaves the session alive until until, whatever it is granted.
func (p *proof) asks(until time.Time) { p.doubt = soonest(p.doubt, until) }

// hopeless reports whether a longer timeout than before keeps the session from being proven in good time: contacts count
// only when they are nearly as old as the session may get.
func (p *proof) hopeless() bool {
	return p.timeout > p.least && (p.lag > p.least/2 || p.freshest() < p.least*3/16)
}

// freshest is how far ahead the deadline can be right after an answer of the leader, which confirms only contacts that are
// one lag old.
func (p *proof) freshest() time.Duration { return p.least - p.margin - p.lag }

// enough is how far ahead the deadline must be for a grant: another lag, so that a contact made now is proven in time, and a
// 16th. If the lag is so long that the deadline never gets that far, a grant rests on what an eighth leaves of it.
func (p *proof) enough() time.Duration {
	return max(p.least/16, min(p.lag+p.least/16, p.freshest()-p.least/8))
}

// answered takes in a request sent at sent whose answer came at at.
func (p *proof) answered(sent, at time.Time, by witness) {
	p.heard = latest(p.heard, sent)
	if by >= leader {
		p.confirm(sent.Add(-p.lag))
	}
	if by == quorum && !sent.Before(p.resumed) {
		p.contact = latest(p.contact, p.resumed)
	}
	// Contacts close together add nothing but memory; leaving one out makes c at most a 64th of the timeout older. What
	// was sent a whole timeout ago proves nothing of now, and an idle session must not collect it for ever.
	n := len(p.contacts)
	if n > 0 && sent.Sub(p.contacts[n-1].sent) < p.timeout/64 {
		return
	}
	old := 0
	for old < n && at.Sub(p.contacts[old].sent) >= p.timeout {
		old++
	}
	p.contacts = append(slices.Delete(p.contacts, 0, old), contact{sent, at})
}

// confirm raises c to the newest contact answered by limit, and forgets those: a later p confirms only later ones.
func (p *proof) confirm(limit time.Time) {
	n := 0
	for n < len(p.contacts) && !p.contacts[n].answered.After(limit) {
		p.contact = latest(p.contact, p.contacts[n].sent)
		n++
	}
	p.contacts = slices.Delete(p.contacts, 0, n)
}

// ripe is from when on an answer of the leader proves another contact. From the first connect answer on there always is one.
func (p *proof) ripe() time.Time { return p.contacts[0].answered.Add(p.lag) }

// doubtful reports whether the newest connect answer still needs a write to count.
func (p *proof) doubtful() bool { return p.resumed.After(p.contact) }

// validUntil is the time up to which the session is proven; zero before the first connect answer.
func (p *proof) validUntil() time.Time {
	return soonest(p.contact.Add(p.least-p.margin), p.doubt)
}

// silentUntil is when nothing will have been answered for a whole timeout.
func (p *proof) silentUntil() time.Time { return p.heard.Add(p.timeout) }

// soonest is the earlier time; a zero one is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
