package lifetime

import "time"

// Report describes the state of a session at one moment.
type Report struct {
	Session    int64  // 0 until a server has given one
	Server     string // that of the latest connection
	Timeout    time.Duration
	ValidUntil time.Time
	Holds      int
	Up         bool // there is a connection
	WasUp      bool // there was one
	Answer
	Err error // why the connection or the session is gone
}

// Answer is the latest answer of a server.
type Answer struct {
	LastAnswer time.Time // when it arrived; zero if there is none
	RoundTrip  time.Duration
}

// report returns the current state. The caller holds mu.
func (l *Lifetime) report(err error) Report {
	r := Report{
		Session: l.id, Timeout: l.upkeep.Timeout(), ValidUntil: l.upkeep.ValidUntil(), Holds: len(l.callbacks),
		Up: l.isUp(), WasUp: !l.since.IsZero(), Answer: l.answer, Err: err,
	}
	if l.connection != nil {
		r.Server = l.connection.Server()
	}
	return r
}

// Report returns the current state of the session.
func (l *Lifetime) Report() (now Report) {
	l.Look(func(r Report) { now = r })
	return now
}

// Look calls f with a report. The session cannot come up or go down while f runs.
func (l *Lifetime) Look(f func(Report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		f(l.report(l.lost))
		return
	}
	f(l.report(nil))
}

// Zxid returns the zxid of the latest transaction that the session knows of.
func (l *Lifetime) Zxid() int64 { return l.zxid.Load() }
