package lifetime

import "time"

// EnoughForGrant reports whether the proof lasts long enough for a grant.
func (l *Lifetime) EnoughForGrant() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.EnoughForGrant(time.Now())
}

// ProvePause returns how long to wait before asking the leader for a proof again.
func (l *Lifetime) ProvePause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.Pause()
}

// Freshen requests a proof from the leader if the current one ends soon, without waiting for the answer. The answers to
// later requests arrive after it, so a caller that waits for one of those needs no separate proof. A session in which
// no sync or write was answered for a third of the timeout sends a ping. Thanks to the pings, one answer of the leader
// leaves at least a quarter of the timeout proven.
//
// While one such request is in flight, another would prove little more, so a thousand waiters that wake together send
// one.
func (l *Lifetime) Freshen() {
	l.mu.Lock()
	c, unproven := l.connection, l.upkeep.ResumptionUnproven()
	if l.freshening == c || !l.upkeep.ClaimSync(time.Now()) {
		l.mu.Unlock()
		return
	}
	l.freshening = c
	l.mu.Unlock()
	done := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.freshening == c { // otherwise another is in flight on a newer connection
			l.freshening = nil
		}
	}
	r := SyncRequest("/", "/", func(error) { done() })
	if unproven {
		r = BarrierRequest(func(error) { done() })
	}
	if !l.SendNow(l.ctx, nil, []Request{r}) {
		done()
	}
}

// ResumptionUnproven is that of the proof.
func (l *Lifetime) ResumptionUnproven() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.upkeep.ResumptionUnproven()
}

// Hears reports whether a server has answered a request sent within the last session timeout.
func (l *Lifetime) Hears() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.upkeep.TimesOutAt())
}

// LookAgain returns how long Hears stays true if no server answers. If Hears is already false, LookAgain returns a
// short time.
func (l *Lifetime) LookAgain() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.upkeep.TimesOutAt()); left > 0 {
		return left
	}
	return l.upkeep.Timeout() / 8
}
