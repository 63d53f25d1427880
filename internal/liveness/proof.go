// Package liveness computes until when a session is proven to be alive: no server ends the session before ValidUntil on
// this process's clock (contract C2 of docs/design.md, which lists the exceptions). It also decides what keeps the
// proof fresh. It has no clock, no lock and no I/O. The session queries it under its own lock, and does what is due:
// package lifetime records answers and ends the holds (loss.go), keeps the proof fresh (heartbeat.go) or asks for one
// ahead of reads (freshen.go), and a grant waits for one (session.Prove).
//
// All times are readings of this process's monotonic clock. It may stand still while the machine is suspended, which no
// proof covers.
package liveness

import (
	"cmp"
	"slices"
	"time"
)

// Proof computes the time until which a session is proven to be alive.
//
// The leader of the ensemble decides when a session expires, based on what its followers report. In its answer to every
// ping of the leader (two per tick), a follower lists the sessions it has heard from. An answer of a follower proves
// nothing by itself. Nor does the leader's answer prove the request that it answers: the follower may be cut off before
// it reports that contact. But a request that the leader served proves that all contacts at least half a tick older
// were reported, since report and request travel over the same connection, in order. Hence
//
//	servedSent = when the latest sync or write that the leader has served was sent, even if the answer was a refusal
//	provenSent = the send time of the latest request whose answer had arrived by servedSent - lag, from any server
//	valid until provenSent + T - margin
//
// T is the least timeout that was ever negotiated. The margin and the lag are those of the newest timeout, so a longer
// one moves the deadline back as well. Contacts within a 64th of the timeout count as one.
//
// The lag is at least half a tick, and if possible longer, because the leader that served the request may have been
// replaced. It then continues to answer for up to a tick and a half.
//
// The connect answer for a new session proves that request, because a quorum has agreed to the session. The connect
// answer for a resumed session does not. The leader touches the session when it grants it, but it may have been
// replaced without knowing it. It then continues to answer for up to a tick and a half, while its successor counts from
// its own start. A write that is applied afterwards shows that no successor had started when the session was touched.
// So does a sync that is sent a lag later.
//
// A server that resumes a session may grant a different timeout, if it is configured differently. The leader applies
// that from then on, even if it is shorter, whether or not its answer arrives. The next leader returns to the timeout
// of the transaction that created the session. Therefore the least timeout ever granted counts, and an unanswered
// resumption counts as the least that the server may grant:
//
//   - The client requests what it was granted. The server keeps that within its limits, so only its maximum can reduce
//     it.
//   - An operator who may lower the maximum below that declares this with WithLeastTimeout. That is the bound.
//   - Otherwise the bound is the least timeout granted. A smaller one would end holds at each server that is slow to
//     answer.
//   - The bound counts from when the request is sent, since no server touches a session before it is asked to.
//   - If a connection ends without an answer, however it ends, that proves nothing. A follower asks the leader before
//     it answers (ZooKeeper's Learner.validateSession), and the leader counts from then on (Leader.revalidateSession).
//     A follower that loses its leader before the leader answers closes the connection in an orderly way, so even an
//     orderly close proves nothing.
//   - Only the answer to a resumption shows what that resumption did. Those before it stay in doubt until the later one
//     is proven: the leader that answered may have been replaced, and its successor may have served them.
//     [Proof.Resuming] has an example, and docs/design.md describes what remains.
type Proof struct {
	terms Terms

	timeout time.Duration // negotiated with the latest connect request
	least   time.Duration // T
	lag     time.Duration // between the answer to a contact and servedSent, for the contact to count
	margin  time.Duration
	beat    time.Duration // between two syncs that keep the proof fresh

	provenSent  time.Time // when the latest contact that is proven was sent
	lastContact time.Time // when the latest request of any kind that has been answered was sent
	unproven    []contact // answered requests not yet confirmed by a served one, by time of answer

	// Resumptions, by the time each was sent. The bounds are times until which a server keeps the session alive.
	resumeSent         time.Time // the latest
	resumeAnsweredSent time.Time // the latest that was answered
	newestBound        time.Time // that of the latest; zero if it has been answered
	earlierBound       time.Time // the earliest of those before it; zero if none is in doubt
}

type contact struct{ sent, answered time.Time }

// Connected records a connect answer.
func (p *Proof) Connected(sent, at time.Time, timeout time.Duration) {
	p.connected(sent, at, timeout, p.terms.lag(timeout), p.terms.margin(timeout))
}

func (p *Proof) connected(sent, at time.Time, timeout, lag, margin time.Duration) {
	p.timeout, p.lag, p.margin = timeout, lag, margin
	p.least = min(timeout, cmp.Or(p.least, timeout))
	p.beat = beat(p.least, lag)
	if p.provenSent.IsZero() {
		p.provenSent = sent
	} else {
		p.resumeAnsweredSent = sent
	}
	p.newestBound = time.Time{}
	p.Answered(sent, at, AnyServer)
}

// beat is the interval between syncs: about an eleventh of the timeout. Each proves the latest contact that was
// answered a lag before. A lag should therefore be a whole number of beats less a round trip: otherwise the contact is
// nearly a beat older than it could be. The beats leave an eleventh of the lag for the round trip; if it takes longer,
// the contact is one beat older.
func beat(least, lag time.Duration) time.Duration {
	beats := max(1, (11*lag+least/2)/least)
	return min(max(12*lag/(11*beats), least/12), least/8)
}

// Resuming records that a resumption is being sent. Until it is answered, the session may have the least timeout that a
// server may grant, counted from then.
//
// For example, with T = 10 s, a WithLeastTimeout of 4 s and a margin of 5 %, the bound of a resumption is 3.8 s after
// it was sent:
//
//	0 s  a resumption is sent     newestBound  =  3.8 s
//	1 s  its connection fails     nothing changes
//	2 s  another is sent          earlierBound =  3.8 s, newestBound = 5.8 s
//	2.1  that one is answered     newestBound  = none, resumeAnsweredSent = 2 s: its own timeout is known
//	2.2  a barrier is sent        ValidUntil is still 3.8 s at most: the first resumption is in doubt
//	2.3  the barrier is answered  provenSent = 2 s, which the barrier proves, so earlierBound = none
func (p *Proof) Resuming(sent time.Time) {
	p.earlierBound = soonest(p.earlierBound, p.newestBound)
	p.resumeSent, p.newestBound = sent, sent.Add(p.LastsUnanswered())
}

// LastsUnanswered is how long the session is proven to live after a resumption is sent, if no server answers it.
func (p *Proof) LastsUnanswered() time.Duration {
	least := p.terms.leastTimeout(p.least)
	return least - p.terms.margin(least)
}

// Hopeless reports whether a longer timeout than before prevents the session from being proven in time: contacts count
// only when they are nearly as old as the session may get.
func (p *Proof) Hopeless() bool {
	return p.timeout > p.least && (p.lag > p.least/2 || p.TooShort())
}

// TooShort reports whether the timeout is too short for the tick: an eighth of the timeout after an answer of the
// leader, which is the longest interval between two syncs, less than a 16th would remain until the deadline.
func (p *Proof) TooShort() bool { return p.freshest() < p.least*3/16 }

// freshest is how far ahead the deadline can be right after an answer of the leader, which confirms only contacts that
// are one lag old.
func (p *Proof) freshest() time.Duration { return p.least - p.margin - p.lag }

// grantNeeds is how far ahead the deadline must be for a grant: another lag, so that a contact made now is proven in
// time, and a 16th of the timeout. If the lag is so long that the deadline hardly gets that far, an eighth of the
// timeout less than freshest suffices, but at least a 16th.
func (p *Proof) grantNeeds() time.Duration {
	return max(p.least/16, min(p.lag+p.least/16, p.freshest()-p.least/8))
}

// Answered records when a request was sent and when it was answered, and who vouches for the answer (see [WitnessOf]).
// Callers must not pass errors that do not come from applying the request, since a server that is cut off may return
// them.
func (p *Proof) Answered(sent, at time.Time, by Witness) {
	p.lastContact = latest(p.lastContact, sent)
	if by >= Leader {
		p.confirm(sent)
	}
	if by == Quorum && !sent.Before(p.resumeAnsweredSent) {
		p.provenSent = latest(p.provenSent, p.resumeAnsweredSent)
	}
	if !p.provenSent.Before(p.resumeSent) {
		p.earlierBound = time.Time{}
	}
	// Contacts that are close together would only take memory: without them, the proven one is at most a 64th of the
	// timeout older.
	n := len(p.unproven)
	if n > 0 && sent.Sub(p.unproven[n-1].sent) < p.timeout/64 {
		return
	}
	// What was sent a whole timeout ago proves nothing about now, and an idle session must not collect it forever.
	old := 0
	for old < n && at.Sub(p.unproven[old].sent) >= p.timeout {
		old++
	}
	p.unproven = append(slices.Delete(p.unproven, 0, old), contact{sent, at})
}

// confirm records that the leader has served a request sent at servedSent. It forgets the contacts that this proves,
// because from then on only later ones can move the deadline.
func (p *Proof) confirm(servedSent time.Time) {
	limit := servedSent.Add(-p.lag)
	n := 0
	for n < len(p.unproven) && !p.unproven[n].answered.After(limit) {
		p.provenSent = latest(p.provenSent, p.unproven[n].sent)
		n++
	}
	p.unproven = slices.Delete(p.unproven, 0, n)
}

// ripe returns the earliest time at which a request to the leader must be sent for its answer to prove another contact.
// After the first connect answer there always is such a contact.
func (p *Proof) ripe() time.Time { return p.unproven[0].answered.Add(p.lag) }

// ResumptionUnproven reports whether the latest connect answer is not proven yet. A write that is applied proves it
// immediately, a sync one lag later. Lifetime.sendSync therefore sends a barrier for a hold, Session.askLeader for a
// grant, and Lifetime.Freshen for a waiter that an event has woken.
func (p *Proof) ResumptionUnproven() bool { return p.resumeAnsweredSent.After(p.provenSent) }

// ValidUntil returns the time up to which the session is proven; zero before the first connect answer.
func (p *Proof) ValidUntil() time.Time {
	return soonest(p.provenSent.Add(p.least-p.margin), soonest(p.earlierBound, p.newestBound))
}

// TimesOutAt returns the time that is a whole timeout after the latest answered request was sent.
func (p *Proof) TimesOutAt() time.Time { return p.lastContact.Add(p.timeout) }

// Lasts reports whether the proof lasts until a contact made now can be proven, and for spare beyond that.
func (p *Proof) Lasts(now time.Time, spare time.Duration) bool {
	return p.ValidUntil().Sub(now) > p.lag+spare
}

// EnoughForGrant reports whether the proof lasts long enough for a grant: if the servers are healthy, the next one
// comes in time.
func (p *Proof) EnoughForGrant(now time.Time) bool { return p.ValidUntil().Sub(now) > p.grantNeeds() }

// Pause returns how long to wait before asking the leader for a proof again: it confirms only contacts that are old
// enough.
func (p *Proof) Pause() time.Duration { return min(p.timeout/64, p.lag/4) }

// Timeout returns the timeout negotiated with the latest connect request, or 0 before the first answer.
func (p *Proof) Timeout() time.Duration { return p.timeout }

// Least returns the least timeout that was ever negotiated.
func (p *Proof) Least() time.Duration { return p.least }

// LastContact returns when the latest request that has been answered was sent.
func (p *Proof) LastContact() time.Time { return p.lastContact }

// soonest returns the earlier time; a zero time means none.
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

// Terms are the options that the deadline depends on.
type Terms struct {
	Tick         time.Duration // that of the ensemble; 0 if unknown
	LeastTimeout time.Duration // the least that a server may grant; 0 means the least that one has granted
	// The fraction of the session timeout that is subtracted from every deadline; conn.WithSafetyMargin has the default.
	Margin float64
}

// lag returns how much older an answered contact must be than a request that the leader serves for the contact to
// count: a quarter of the timeout or, if the tick is known, a tick and a half if that is less, but at least half a
// tick. Half a tick is enough for a follower to report the contact. A tick and a half covers a leader that was replaced
// and does not notice for that long. With a timeout below six ticks, a quarter is less than that, and such a leader is
// not covered: see package conn.
//
// Source: ZooKeeper's Leader.lead counts its followers once a tick. A leader that was frozen notices at the first count
// that they are gone. A leader that is cut off counts syncLimit ticks from the beginning of the next tick; the
// followers count from its last ping, half a tick earlier.
func (t Terms) lag(timeout time.Duration) time.Duration {
	if t.Tick > 0 {
		return max(t.Tick/2, min(t.Tick*3/2, timeout/4))
	}
	return timeout / 4
}

func (t Terms) margin(timeout time.Duration) time.Duration {
	return time.Duration(t.Margin * float64(timeout))
}

// leastTimeout returns the least timeout that a server may grant to a session that was granted timeout before; see
// [Proof].
func (t Terms) leastTimeout(timeout time.Duration) time.Duration {
	if t.LeastTimeout > 0 {
		return min(timeout, t.LeastTimeout)
	}
	return timeout
}
