package conn

import "github.com/zkrecipes/zkrecipes/internal/session"

// State is what a client can say of its connection.
type State session.State

// The states; the package documentation has the diagram.
const (
	// Connecting: there has been no session yet.
	Connecting = State(session.Connecting)
	// Connected: there is a session, and a server answers for it.
	Connected = State(session.Connected)
	// Suspended: the connection is gone, the session may live on; holds run up to their deadline.
	Suspended = State(session.Suspended)
	// Lost: the session is over, and every hold with it; the client opens a new one.
	Lost = State(session.Lost)
	// Closed: the client was closed.
	Closed = State(session.Closed)
)

// String returns the state as one lower-case word.
func (s State) String() string { return session.State(s).String() }
