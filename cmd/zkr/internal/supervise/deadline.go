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
	timeout, grace, lead time.Duration
	least                time.Duration // of the grace, while an answer is awaited

	until  time.Time     // the newest deadline of the hold
	onBoot time.Duration // until, by the clock that runs on while the machine is suspended
	moved  time.Time     // when a look last saw a later deadline

	looked     time.Time // the last look, on both clocks
	lookedBoot time.Duration
	woken      time.Time     // the first look after a pause of this process
	slept      time.Duration // for how long the clock of until stood in that pause
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
	return &deadline{timeout: timeout, grace: grace, lead: lead, least: grace / 8}, nil
}

// enoughFor is a session timeout that leaves room for a grace.
func enoughFor(grace, lead time.Duration) time.Duration {
	t := time.Duration(float64(grace+lead)/healthy) + time.Second
	return t.Truncate(time.Second) + time.Second
}

// look takes in the deadline of the hold, and says what to do now. boot is the clock that runs on while the machine is
// suspended: the clock of the deadline may stand meanwhile.
func (d *deadline) look(now time.Time, boot time.Duration, until time.Time) verdict {
	d.notePause(now, boot)
	if until.After(d.until) {
		d.moved = now
	}
	if !until.Equal(d.until) {
		d.until, d.onBoot = until, boot+until.Sub(now)
		if until.Sub(d.woken) < d.timeout { // the contact that it depends on may be from before the pause
			d.onBoot -= d.slept
		}
	}
	switch left := d.left(now, boot); {
	case left <= d.lead:
		return timeToKill
	case left <= d.lead+d.grace && (!d.awaitsAnswer(now) || left <= d.lead+d.least):
		return timeToStop
	}
	return goodTime
}

// notePause finds out that this process did not run for a while, since it was stopped, or the machine was.
func (d *deadline) notePause(now time.Time, boot time.Duration) {
	gap := boot - d.lookedBoot
	if stood := gap - now.Sub(d.looked); !d.looked.IsZero() && gap > d.timeout/16 {
		if now.Sub(d.woken) >= d.timeout {
			d.slept = 0
		}
		d.woken, d.slept = now, d.slept+max(stood, 0)
	}
	d.looked, d.lookedBoot = now, boot
}

// awaitsAnswer reports whether an answer may still move the deadline on after a pause, so that the stop can wait. The first answer
// comes soon if the servers can be reached. It proves contacts from before the pause, and so moves the deadline. Contacts from after
// the pause count when they are a quarter of the timeout old; see liveness.Proof.
func (d *deadline) awaitsAnswer(now time.Time) bool {
	since := now.Sub(d.woken)
	if d.moved.Before(d.woken) {
		return since < d.timeout/16
	}
	return since < d.timeout/2
}

// cause says why the deadline is close, in a word.
func (d *deadline) cause(now time.Time) string {
	if now.Sub(d.woken) < d.timeout {
		return "pause of zkr"
	}
	return "deadline"
}

// left is how long the hold is proven.
func (d *deadline) left(now time.Time, boot time.Duration) time.Duration {
	return min(d.until.Sub(now), d.onBoot-boot)
}

// stuck is for how long no answer has moved the deadline on.
func (d *deadline) stuck(now time.Time) time.Duration { return now.Sub(d.moved) }

// fresh reports whether the deadline is far enough ahead to start a command. A grant after a wait may come with less than
// what answers keep up later, so that the command would be asked to stop at once.
func (d *deadline) fresh(now time.Time, boot time.Duration) bool {
	return d.left(now, boot) >= min(d.grace+d.lead+d.timeout*3/16, time.Duration(healthy*float64(d.timeout)))
}
