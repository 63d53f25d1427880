package conn

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Status is what a client knows about itself at one moment. Times are by the local clock; a zero time means that the
// event has not happened yet.
type Status struct {
	// State is the connection's state, and Since is when it was entered.
	State zkrecipes.State
	Since time.Time
	// Server is the server that answers for the session, as in the connect string. A name is followed by the address it
	// resolved to: "zk1:2181 (10.0.0.1)". Server is empty while the client is disconnected.
	Server string
	// Identity is the identity under which [WithSASL] authenticated the client to that server, such as "DIGEST-MD5 as
	// bob". It is empty without that option.
	Identity string
	// Session is the current session's ID, and Timeout the timeout that the server granted. Both are 0 while there is
	// none.
	Session int64
	Timeout time.Duration
	// ValidUntil is that session's [Session.ValidUntil], and zero while there is none. The client keeps it in the
	// future while there are holds; without a hold it may be in the past, which is not a problem.
	ValidUntil time.Time
	// Holds is how many contenders of this client are granted now, including those of its [Client.Sub] clients. Nested
	// holds count once.
	Holds int
	// LastAnswer is when the most recent answer from a server arrived, even if that was in an earlier session, and
	// RoundTrip is the time between that answer and its request. Pings count, so both are at most about a third of the
	// session timeout old while the server answers.
	LastAnswer time.Time
	RoundTrip  time.Duration
	// LastError is why an attempt to connect, a connection or a session failed most recently, and LastErrorAt is when.
	// Both remain set after the client recovers. If an attempt or a connection failed, the error names the server.
	LastError   error
	LastErrorAt time.Time
}

// Status returns the connection's and the session's state. It returns immediately and sends no request.
func (c *Client) Status() Status {
	s := c.inner().Status()
	return Status{
		State: s.State, Since: s.Since, Server: s.Server, Identity: s.Identity,
		Session: s.Session, Timeout: s.Timeout, ValidUntil: s.ValidUntil,
		Holds: s.Holds, LastAnswer: s.LastAnswer, RoundTrip: s.RoundTrip,
		LastError: s.LastError, LastErrorAt: s.LastErrorAt,
	}
}
