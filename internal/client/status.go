package client

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
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

// Status implements conn.Client.Status.
func (c *Client) Status() Status {
	for {
		c.core.mu.Lock()
		s := c.core.session
		c.core.mu.Unlock()
		st := c.statusIn(s)
		c.core.mu.Lock()
		// This is read after the state, which it explains.
		bad, before, current := c.core.trouble, c.core.lastAnswer, c.core.session == s
		c.core.mu.Unlock()
		if !current {
			continue // the state may be that of the next session
		}
		st.LastError, st.LastErrorAt = bad.err, bad.at
		if st.LastAnswer.IsZero() { // this session has none, so the latest is that of the previous session
			st.Answer = before
		}
		return st
	}
}

// statusIn returns the part of the status that depends on the session. A session that has ended counts until the state
// changes.
func (c *Client) statusIn(s *session.Session) (st Status) {
	s.Look(func(r lifetime.Report) {
		now := c.core.states.current()
		st.State, st.Since, st.Answer = now.state, now.at, r.Answer
		if now.state != zkrecipes.Connected && now.state != zkrecipes.Suspended {
			return
		}
		st.Session, st.Timeout, st.ValidUntil, st.Holds = r.Session, r.Timeout, r.ValidUntil, r.Holds
		if r.Up {
			st.Server = r.Server
		}
	})
	if m := c.core.opts.SASL; m != nil && st.Server != "" { // without the session's lock, since String is the user's code
		st.Identity = m.String()
	}
	return st
}
