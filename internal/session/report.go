package session

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Report is what a session says of itself at one moment.
type Report struct {
	Session    int64  // 0 until a server has given it
	Server     string // of the newest connection
	Timeout    time.Duration
	ValidUntil time.Time
	Holds      int
	Up         bool // there is a connection
	WasUp      bool // there was one
	LastAnswer time.Time
	RoundTrip  time.Duration
	Err        error // why the connection or the session is gone
}

// answer is the newest answer of a server.
type answer struct {
	at        time.Time
	roundTrip time.Duration
}

// report is called with mu held.
func (s *session) report(err error) Report {
	r := Report{
		Session: s.id, Timeout: s.upkeep.Timeout(), ValidUntil: s.upkeep.ValidUntil(), Holds: len(s.callbacks),
		Up: s.isUp(), WasUp: !s.since.IsZero(), LastAnswer: s.answer.at, RoundTrip: s.answer.roundTrip, Err: err,
	}
	if s.connection != nil {
		r.Server = s.connection.Server()
	}
	return r
}

// Report returns what the session says of itself now.
func (s *session) Report() (now Report) {
	s.Look(func(r Report) { now = r })
	return now
}

// Look calls f with a report. Meanwhile the session cannot come up or go down.
func (s *session) Look(f func(Report)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		f(s.report(s.lost))
		return
	}
	f(s.report(nil))
}

// Remains returns what servers may keep of a session that has ended: why it has, and what is needed to close it.
func (s *session) Remains() (reason zkrecipes.LossReason, id int64, password []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost.Reason, s.id, s.password
}

// Zxid returns the newest transaction that the session has heard of.
func (s *session) Zxid() int64 { return s.zxid.Load() }
