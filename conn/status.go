package conn

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Status is what a client knows of itself at one moment. Times are of the local clock; a zero time says that there was
// nothing yet.
type Status struct {
	// State of the connection, and since when it is so.
	State zkrecipes.State
	Since time.Time
	// Server is the server that answers for the session, as in the connect string. The address that was found for a name comes
	// behind it: "zk1:2181 (10.0.0.1)". It is empty while there is no connection.
	Server string
	// Identity is who the client is to that server by [WithSASL], such as "DIGEST-MD5 as bob". It is empty without that option.
	Identity string
	// Session is the id of the live session, and Timeout what the server granted to it. Both are 0 while there is none.
	Session int64
	Timeout time.Duration
	// ValidUntil is [Session.ValidUntil] of that session, zero while there is none. It is kept ahead only while there are
	// holds: without a hold it may lie in the past, and nothing is wrong.
	ValidUntil time.Time
	// Holds is how many contenders of this client are granted now, its other clients made by [Client.Sub] included. Nested
	// holds count once.
	Holds int
	// LastAnswer is when the newest answer of a server came, also if that was in an earlier session. RoundTrip is how long it
	// took since its request was sent. Pings count, so both are at most a third of the session timeout old while the client is
	// connected.
	LastAnswer time.Time
	RoundTrip  time.Duration
	// LastError is why an attempt to connect, a connection or a session failed most lately, and LastErrorAt when. Both stay
	// after the client has recovered. The error of an attempt or a connection names the server.
	LastError   error
	LastErrorAt time.Time
}

// Status returns the state of the connection and of the session. It sends nothing and does not wait.
func (c *Client) Status() Status {
	s := c.inner().Status()
	return Status{
		State: s.State, Since: s.Since, Server: s.Server, Identity: s.Identity, Session: s.Session, Timeout: s.Timeout, ValidUntil: s.ValidUntil,
		Holds: s.Holds, LastAnswer: s.LastAnswer, RoundTrip: s.RoundTrip, LastError: s.LastError, LastErrorAt: s.LastErrorAt,
	}
}
