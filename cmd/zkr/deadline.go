package main

import (
	"fmt"
	"time"
)

// healthy is which part of the session timeout a deadline is ahead, at least, while servers answer; see package conn.
const healthy = 0.45

// lead is how long before the deadline the command is killed: for the kill to take effect, and for this process to be late.
func defaultLead(timeout time.Duration) time.Duration {
	return min(250*time.Millisecond+timeout/100, timeout/20)
}

// deadline says when a command under a hold must stop. The hold's own deadline moves on while servers answer. It dips while
// the client resumes the session: a server may then grant a shorter timeout, until it has said that it does not.
type deadline struct {
	grace, lead time.Duration

	until  time.Time     // the newest deadline of the hold
	best   time.Time     // the latest one ever
	onBoot time.Duration // until, by the clock that runs on while the machine is suspended
	dipped time.Time     // when a look first saw the present dip; zero without one
	moved  time.Time     // when a look last saw a later deadline than ever
}

// verdict is what a look says.
type verdict int

const (
	goodTime verdict = iota
	timeToStop
	timeToKill
)

// newDeadline refuses a grace that cannot be kept.
func newDeadline(timeout, grace, lead time.Duration) (*deadline, error) {
	if most := time.Duration(healthy * float64(timeout)); grace+lead > most {
		return nil, usagef("a grace of %v and a kill lead of %v are %v, but a session of %v leaves only %v: its deadline is at least "+
			"%.2f × %v ahead while servers answer; shorten --grace, or ask for %v with --session-timeout (servers grant at most 20 of their ticks)",
			grace, lead, grace+lead, timeout, most, healthy, timeout, enoughFor(grace, lead))
	}
	return &deadline{grace: grace, lead: lead}, nil
}

// enoughFor is a session timeout that leaves room for a grace.
func enoughFor(grace, lead time.Duration) time.Duration {
	t := time.Duration(float64(grace+lead)/healthy) + time.Second
	return t.Truncate(time.Second) + time.Second
}

// look takes in the deadline of the hold, and says what to do now. boot is the clock that runs on while the machine is
// suspended: the clock of the deadline may stand meanwhile.
func (d *deadline) look(now time.Time, boot time.Duration, until time.Time) verdict {
	if !until.Equal(d.until) {
		d.until, d.onBoot = until, boot+until.Sub(now)
	}
	if until.After(d.best) {
		d.best, d.moved = until, now
	}
	switch {
	case !until.Before(d.best):
		d.dipped = time.Time{}
	case d.dipped.IsZero():
		d.dipped = now
	}
	switch left := d.left(now, boot); {
	case left <= d.lead:
		return timeToKill
	case d.dipped.IsZero() && left <= d.lead+d.grace,
		!d.dipped.IsZero() && !now.Before(d.dippedStop()):
		return timeToStop
	}
	return goodTime
}

// left is how long the hold is proven.
func (d *deadline) left(now time.Time, boot time.Duration) time.Duration {
	return min(d.until.Sub(now), d.onBoot-boot)
}

// dippedStop is when to stop during a dip: when the deadline of before asks for it, or in the middle between the beginning of
// the dip and the kill. The first half is for the answer that ends the dip, the second half is what is left of the grace.
func (d *deadline) dippedStop() time.Time {
	kill := d.until.Add(-d.lead)
	middle := d.dipped.Add(kill.Sub(d.dipped) / 2)
	if regular := d.best.Add(-d.lead - d.grace); regular.Before(middle) {
		return regular
	}
	return middle
}

// stuck is for how long no answer has moved the deadline on.
func (d *deadline) stuck(now time.Time) time.Duration { return now.Sub(d.moved) }

// fresh reports whether the deadline is far enough ahead to start a command.
func (d *deadline) fresh(now, until time.Time, timeout time.Duration) bool {
	return until.Sub(now) >= min(d.grace+d.lead+timeout/16, time.Duration(healthy*float64(timeout)))
}

func (v verdict) String() string { return fmt.Sprintf("verdict %d", int(v)) }
