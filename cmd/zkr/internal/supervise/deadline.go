package supervise

import (
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// healthy is a fraction of the session timeout that any deadline is ahead while servers answer, except that of a new
// hold. Package conn says 0.55.
const healthy = 0.45

// suspicious is a fraction so small that no server can have answered for a while.
const suspicious = 0.4

// defaultLead returns how long before the deadline the command is killed, which allows for the time that the kill takes
// and for this process being late.
func defaultLead(timeout time.Duration) time.Duration {
	return min(250*time.Millisecond+timeout/100, timeout/20)
}

// deadline determines when a command under a hold must stop. The hold's own deadline advances while servers answer.
type deadline struct {
	timeout, grace, lead time.Duration
	least                time.Duration // minimum of the grace while an answer is awaited

	until  time.Time     // the newest deadline of the hold
	onBoot time.Duration // until, on the clock that advances while the machine is suspended
	moved  time.Time     // when look last saw a later deadline

	looked     time.Time // the last look, on both clocks
	lookedBoot time.Duration
	woken      time.Time     // the first look after a pause of this process
	slept      time.Duration // for how long the clock of until stood still in that pause
}

// verdict is the result of look.
type verdict int

const (
	goodTime verdict = iota
	timeToStop
	timeToKill
)

// newDeadline rejects a grace that cannot be guaranteed.
func newDeadline(timeout, grace, lead time.Duration) (*deadline, error) {
	if most := time.Duration(healthy * float64(timeout)); grace+lead > most {
		return nil,
			exit.Usagef(
				"a grace of %v and a kill lead of %v add up to %v, but a session of %v leaves only %v: while servers answer, "+
					"its deadline is at least %.2f × %v ahead; "+
					"shorten --grace, or request %v with --session-timeout (servers grant at most 20 of their ticks)",
				grace, lead, grace+lead, timeout, most, healthy, timeout, enoughFor(grace, lead))
	}
	return &deadline{timeout: timeout, grace: grace, lead: lead, least: grace / 8}, nil
}

// enoughFor returns a session timeout that leaves room for a grace.
func enoughFor(grace, lead time.Duration) time.Duration {
	t := time.Duration(float64(grace+lead)/healthy) + time.Second
	return t.Truncate(time.Second) + time.Second
}

// look takes in the deadline of the hold and returns what to do now. boot is the clock that advances while the machine
// is suspended, when the clock of the deadline may stand still.
func (d *deadline) look(now time.Time, boot time.Duration, until time.Time) verdict {
	d.notePause(now, boot)
	if until.After(d.until) {
		d.moved = now
	}
	if !until.Equal(d.until) {
		d.until, d.onBoot = until, boot+until.Sub(now)
		if until.Sub(d.woken) < d.timeout { // the contact that it depends on may predate the pause
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

// notePause detects that this process did not run for a while, because it was stopped or the machine was suspended.
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

// awaitsAnswer reports whether an answer may still extend the deadline after a pause, so that the stop can wait. If the
// servers can be reached, the first answer arrives soon. It proves contacts from before the pause, and so extends the
// deadline. Contacts from after the pause count once they are a quarter of the timeout old; see liveness.Proof.
func (d *deadline) awaitsAnswer(now time.Time) bool {
	since := now.Sub(d.woken)
	if d.moved.Before(d.woken) {
		return since < d.timeout/16
	}
	return since < d.timeout/2
}

// cause returns why the deadline is close, as an event's reason.
func (d *deadline) cause(now time.Time) string {
	if now.Sub(d.woken) < d.timeout {
		return "pause of zkr"
	}
	return "deadline"
}

// left returns for how much longer the hold is proven.
func (d *deadline) left(now time.Time, boot time.Duration) time.Duration {
	return min(d.until.Sub(now), d.onBoot-boot)
}

// stuck returns for how long no answer has extended the deadline.
func (d *deadline) stuck(now time.Time) time.Duration { return now.Sub(d.moved) }

// fresh reports whether the deadline is far enough ahead to start a command. A grant after a wait may come with less
// time than answers sustain later, so that the command would be asked to stop at once.
func (d *deadline) fresh(now time.Time, boot time.Duration) bool {
	return d.left(now, boot) >= min(d.grace+d.lead+d.timeout*3/16, time.Duration(healthy*float64(d.timeout)))
}
