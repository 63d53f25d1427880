package client

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// Status is what a client knows about itself at one moment; package conn documents it.
type Status struct {
	State      zkrecipes.State
	Since      time.Time
	Server     string
	Identity   string
	Session    int64
	Timeout    time.Duration
	ValidUntil time.Time
	Holds      int
	lifetime.Answer
	LastError   error
	LastErrorAt time.Time
}

// trouble is the latest failure of a connection, of an attempt to connect, or of a session.
type trouble struct {
	err error
	at  time.Time
}

// Status implements conn.Client.Status. All fields are as of one moment.
func (c *Client) Status() Status {
	c.core.mu.Lock()
	s, bad, before := c.core.session, c.core.trouble, c.core.lastAnswer
	c.core.mu.Unlock()
	st := Status{LastError: bad.err, LastErrorAt: bad.at}
	s.Look(func(r lifetime.Report) {
		now := c.core.states.current()
		st.State, st.Since = now.state, now.at
		st.Answer = r.Answer
		if st.LastAnswer.IsZero() { // this session has none, so the latest is that of the previous session
			st.Answer = before
		}
		if r.Err != nil || !r.WasUp {
			return
		}
		st.Session, st.Timeout, st.ValidUntil, st.Holds = r.Session, r.Timeout, r.ValidUntil, r.Holds
		if r.Up {
			st.Server = r.Server
			if m := c.core.opts.SASL; m != nil {
				st.Identity = m.String()
			}
		}
	})
	return st
}
