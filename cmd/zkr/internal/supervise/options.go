package supervise

import (
	"os"
	"time"
)

// Options control how to wait for the lock and how to run the program under it.
type Options struct {
	Try  bool          // do not wait for other holders
	Wait time.Duration // negative means forever
	Busy int           // exit status when another holder has the lock

	Grace, Lead time.Duration // negative means a fraction of the session timeout, see deadline
	MinHold     time.Duration
	MaxRun      time.Duration // 0 means no limit
	StopTimeout time.Duration // 0 means forever
	LossGrace   time.Duration

	OnLoss    string // kill, term or ignore
	Leftovers string // kill, wait or ignore
	OnRevoke  string // term or ignore

	Signal  os.Signal   // asks the program to stop
	Forward []os.Signal // signals passed on to the program
}

// deadline returns the deadline rule for a session.
func (o *Options) deadline(timeout time.Duration) (*deadline, error) {
	grace, lead := o.Grace, o.Lead
	if grace < 0 {
		grace = timeout / 4
	}
	if lead < 0 {
		lead = defaultLead(timeout)
	}
	d, err := newDeadline(timeout, grace, lead)
	if err == nil && (o.Grace >= 0 || o.OnLoss == "term") { // the program needs the whole grace
		d.least = grace
	}
	return d, err
}
