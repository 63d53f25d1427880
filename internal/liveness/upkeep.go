package liveness

import "time"

// Upkeep is a proof together with what keeps it fresh. It reports what is due at a moment, and when to query it next.
// It recomputes that each time, so querying it more often does no harm.
type Upkeep struct {
	Proof
	retained int // by holds, acquisitions and removals; while there is one, a sync is sent every beat
	syncing  bool
	lastSync time.Time             // or the moment from which the next beat counts, if there was no need of a sync
	warnings map[*Warning]struct{} // nil until there is one
}

// New returns the upkeep of a session that is not established yet.
func New(terms Terms) Upkeep { return Upkeep{Proof: Proof{terms: terms}} }

// Conn is what is known about the latest connection; zero if there is none.
type Conn struct {
	Up         bool
	OldestSync time.Time // when the oldest unanswered sync was sent; zero if there is none
	Arrived    time.Time // when the latest part of a long reply arrived, here or on an earlier connection; zero if none did
}

// Step is what is due at a moment.
type Step struct {
	Warn []func() // to call
	Sync bool     // a sync must be sent now; the upkeep records it as sent
	Drop bool     // a sync has been unanswered for too long, so the connection must be dropped
	// A whole timeout after the latest answered request was sent or, if later, a part of a long reply arrived: by then
	// the session has ended.
	Silent time.Time
	Next   time.Time // query again by then
}

// Step returns what is due now. held means that there are holds, which end with the proof.
func (u *Upkeep) Step(now time.Time, held bool, c Conn) Step {
	step := Step{Silent: latest(u.TimesOutAt(), c.Arrived.Add(u.timeout))}
	step.Next = step.Silent
	if held {
		step.Next = soonest(step.Next, u.ValidUntil())
	}
	warn, next := u.warn(now)
	step.Warn, step.Next = warn, soonest(step.Next, next)
	if u.retained > 0 && c.Up {
		u.stepSync(now, c, &step)
	}
	return step
}

// stepSync adds to a step what a retained session needs on a connection that is up. An answer wakes the session.
func (u *Upkeep) stepSync(now time.Time, c Conn, step *Step) {
	if !c.OldestSync.IsZero() {
		overdue := latest(c.OldestSync, c.Arrived).Add(u.least / 4)
		if !now.Before(overdue) {
			step.Drop = true
			return
		}
		step.Next = soonest(step.Next, overdue)
	}
	if u.syncing {
		return
	}
	due := u.SyncDue()
	if ripe := u.ripe(); u.lastSync.Before(ripe) && !u.Lasts(now, u.least/8) {
		due = soonest(due, ripe)
	}
	if now.Before(due) {
		step.Next = soonest(step.Next, due)
		return
	}
	step.Sync, step.Next = true, soonest(step.Next, now.Add(u.least/4))
	u.syncing, u.lastSync = true, now
}

// SyncDue returns when the next sync is due while the session is retained.
func (u *Upkeep) SyncDue() time.Time { return u.lastSync.Add(u.beat) }

// HurrySync makes the next sync due now.
func (u *Upkeep) HurrySync() { u.lastSync = time.Time{} }

// SyncDone records that the latest sync was answered, or lost with its connection.
func (u *Upkeep) SyncDone() { u.syncing = false }

// BeginRetention keeps the proof fresh until EndRetention. It reports whether the proof was not being kept fresh
// before. If the proof lasts for now, the first sync is not urgent, so a short hold needs none.
func (u *Upkeep) BeginRetention(now time.Time) (first bool) {
	u.retained++
	if u.retained > 1 {
		return false
	}
	if u.Lasts(now, u.least/8) {
		u.lastSync = now
	}
	return true
}

// EndRetention ends one retention.
func (u *Upkeep) EndRetention() { u.retained-- }

// ClaimSync reports whether the proof ends soon, so that a request must be sent to the leader now. That request counts
// as a sync.
func (u *Upkeep) ClaimSync(now time.Time) bool {
	if u.Lasts(now, u.least/8) {
		return false
	}
	u.lastSync = now
	return true
}

// Warning is a call that is due when the deadline is near.
type Warning struct {
	lead time.Duration
	call func()
}

// AddWarning makes a warning due as soon as no more than lead remains until ValidUntil, even if that is because it
// moved back.
func (u *Upkeep) AddWarning(lead time.Duration, call func()) *Warning {
	w := &Warning{lead, call}
	if u.warnings == nil {
		u.warnings = make(map[*Warning]struct{})
	}
	u.warnings[w] = struct{}{}
	return w
}

// Forget removes a warning from the list, if it is still there.
func (u *Upkeep) Forget(w *Warning) { delete(u.warnings, w) }

// WarningDue returns when a warning is due.
func (u *Upkeep) WarningDue(w *Warning) time.Time { return u.ValidUntil().Add(-w.lead) }

// NextDue returns when the first warning is due, or the deadline if none is due before it.
func (u *Upkeep) NextDue() time.Time {
	first := u.ValidUntil()
	for w := range u.warnings {
		first = soonest(first, u.WarningDue(w))
	}
	return first
}

// warn removes the warnings that are due by now from the list, and returns when the next one is due, or zero if there
// is none.
func (u *Upkeep) warn(now time.Time) (due []func(), next time.Time) {
	for w := range u.warnings {
		if at := u.WarningDue(w); now.Before(at) {
			next = soonest(next, at)
			continue
		}
		delete(u.warnings, w)
		due = append(due, w.call)
	}
	return due, next
}
