package supervise

import (
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// healthy is which part of the session timeout a deadline is ahead, at least, while servers answer; see package conn.
const healthy = 0.45

// suspicious is which part is so little that no server can have answered for a while.
const suspicious = 0.4

// lead is how long before the deadline the command is killed: for the kill to take effect, and for this process to be late.
func defaultLead(timeout time.Duration) time.Duration {
	return min(250*time.Millisecond+timeout/100, timeout/20)
}

// deadline says when a command under a hold must stop. The hold's own deadline moves on while servers answer.
type deadline struct {
	grace, lead time.Duration

	until  time.Time     // the newest deadline of the hold
	onBoot time.Duration // until, by the clock that runs on while the machine is suspended
	moved  time.Time     // when a look last saw a later deadline
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
		return nil, exit.Usagef("a grace of %v and a kill lead of %v are %v, but a session of %v leaves only %v: its deadline is at least "+
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
	if until.After(d.until) {
		d.moved = now
	}
	if !until.Equal(d.until) {
		d.until, d.onBoot = until, boot+until.Sub(now)
	}
	switch left := d.left(now, boot); {
	case left <= d.lead:
		return timeToKill
	case left <= d.lead+d.grace:
		return timeToStop
	}
	return goodTime
}

// left is how long the hold is proven.
func (d *deadline) left(now time.Time, boot time.Duration) time.Duration {
	return min(d.until.Sub(now), d.onBoot-boot)
}

// stuck is for how long no answer has moved the deadline on.
func (d *deadline) stuck(now time.Time) time.Duration { return now.Sub(d.moved) }

// fresh reports whether the deadline is far enough ahead to start a command. A grant after a wait may come with less than
// what answers keep up later, so that the command would be asked to stop at once.
func (d *deadline) fresh(now, until time.Time, timeout time.Duration) bool {
	return until.Sub(now) >= min(d.grace+d.lead+timeout*3/16, time.Duration(healthy*float64(timeout)))
}
