package supervise

import (
	"os"
	"time"
)

// Options say how to wait for the lock, and how to run the program under it.
type Options struct {
	Try  bool          // do not wait for other holders
	Wait time.Duration // negative without end
	Busy int           // exit status when another holder has the lock

	Grace, Lead time.Duration // negative for a part of the session timeout, see newDeadline
	MinHold     time.Duration
	MaxRun      time.Duration // 0 without end
	StopTimeout time.Duration // 0 without end
	LossGrace   time.Duration

	OnLoss    string // kill, term or ignore
	Leftovers string // kill, wait or ignore
	OnRevoke  string // term or ignore

	Signal  os.Signal   // asks the program to stop
	Forward []os.Signal // what is passed on to it
}

// deadline makes the rule for a session.
func (o *Options) deadline(timeout time.Duration) (*deadline, error) {
	grace, lead := o.Grace, o.Lead
	if grace < 0 {
		grace = timeout / 4
	}
	if lead < 0 {
		lead = defaultLead(timeout)
	}
	d, err := newDeadline(timeout, grace, lead)
	if err == nil && (o.Grace >= 0 || o.OnLoss == "term") { // the program needs all of it
		d.least = grace
	}
	return d, err
}
