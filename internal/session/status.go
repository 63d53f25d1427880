package session

import "time"

// Status is what a client knows of itself at one moment; package conn documents the fields.
type Status struct {
	State       State
	Since       time.Time
	Server      string
	Session     int64
	Timeout     time.Duration
	ValidUntil  time.Time
	Holds       int
	LastAnswer  time.Time
	RoundTrip   time.Duration
	LastError   error
	LastErrorAt time.Time
}

// answer is the newest answer of a server.
type answer struct {
	at        time.Time
	roundTrip time.Duration
}

// trouble is the newest failure of a connection, of an attempt to connect, or of a session.
type trouble struct {
	err error
	at  time.Time
}

// Status returns the state of the connection and of the session, all as of this moment. It sends nothing.
func (c *Client) Status() Status {
	c.core.mu.Lock()
	s, bad, before := c.core.session, c.core.trouble, c.core.answer
	c.core.mu.Unlock()
	st := Status{LastError: bad.err, LastErrorAt: bad.at}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.core.states.current()
	st.State, st.Since = now.state, now.at
	newest := s.answer
	if newest.at.IsZero() {
		newest = before // of the session before, since this one has none
	}
	st.LastAnswer, st.RoundTrip = newest.at, newest.roundTrip
	if s.lost != nil || s.since.IsZero() {
		return st
	}
	st.Session, st.Timeout, st.ValidUntil, st.Holds = s.id, s.upkeep.Timeout(), s.upkeep.ValidUntil(), len(s.callbacks)
	if s.isUp() {
		st.Server = s.connection.Server()
	}
	return st
}
