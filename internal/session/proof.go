package session

import (
	"cmp"
	"slices"
	"time"
)

// proof is the arithmetic behind [Session.ValidUntil], without clock and without I/O.
//
// The leader of the ensemble decides when a session expires, from what its followers report: each says, in its answer
// to every ping of the leader (two a tick), which sessions it has heard from. So an answer by a follower proves nothing
// by itself, and neither does one by the leader, since that contact may not have been reported yet when the follower is
// cut off. But a request that the leader served proves that all contacts at least half a tick older were reported:
// report and request travel the same connection, in order. Hence
//
//	p = when the newest request was sent that the leader has served and answered
//	c = when the newest request was sent whose answer, by whatever server, had come by p - lag
//	valid until c + timeout - margin
//
// The lag is more than half a tick, since whoever served may have been replaced: it goes on for up to a tick and a half.
//
// The connect answer for a new session proves its own sending: a quorum has agreed to the session. That for a session
// which is resumed does not. The leader touches the session to give it, but it may be one that has been replaced and does
// not know: it goes on answering for up to a tick and a half, while its successor counts from its own beginning. A write
// that is answered afterwards says that no successor had begun when the session was touched.
//
// A server that resumes a session may grant another timeout, if it is configured differently. The next leader goes back to
// that of the transaction which created the session; so it is the least of all that counts.
type proof struct {
	timeout time.Duration // negotiated with the newest connect request
	least   time.Duration // ever negotiated
	lag     time.Duration // between a contact and p, for the contact to count
	margin  time.Duration

	leader   time.Time // p
	contact  time.Time // c
	resumed  time.Time // when the connect request was sent that no write has confirmed yet
	heard    time.Time // when the newest request of any kind was sent that has been answered
	contacts []contact // answered requests that no p confirms yet, by time of answer
}

type contact struct{ sent, answered time.Time }

// witness is who stands behind an answer.
type witness int

const (
	anyServer witness = iota
	leader            // or a server that takes itself for it
	quorum            // a write that was applied
)

// connected takes in a connect answer.
func (p *proof) connected(sent, at time.Time, timeout, lag, margin time.Duration) {
	p.timeout, p.lag, p.margin = timeout, lag, margin
	p.least = min(timeout, cmp.Or(p.least, timeout))
	if p.contact.IsZero() {
		p.contact = sent
	} else {
		p.resumed = sent
	}
	p.answered(sent, at, anyServer)
}

// answered takes in a request sent at sent whose answer came at at.
func (p *proof) answered(sent, at time.Time, by witness) {
	p.heard = latest(p.heard, sent)
	if by >= leader && sent.After(p.leader) {
		p.leader = sent
		p.confirm(sent.Add(-p.lag))
	}
	if by == quorum && !sent.Before(p.resumed) {
		p.contact = latest(p.contact, p.resumed)
		p.resumed = time.Time{}
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

// doubtful reports whether the newest connect answer still needs a write to count.
func (p *proof) doubtful() bool { return p.resumed.After(p.contact) }

// validUntil is the time up to which the session is proven; zero before the first connect answer.
func (p *proof) validUntil() time.Time {
	if p.contact.IsZero() {
		return time.Time{}
	}
	return p.contact.Add(p.least - p.margin)
}

// silentUntil is when nothing will have been answered for a whole timeout.
func (p *proof) silentUntil() time.Time { return p.heard.Add(p.timeout) }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
