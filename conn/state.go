package conn

import "github.com/zkrecipes/zkrecipes"

// State is the state of a client's connection and session.
type State = zkrecipes.State

// The states; the package documentation has the diagram.
const (
	// Connecting: there has been no session yet.
	Connecting = zkrecipes.Connecting
	// Connected: there is a session, and a server answers for it.
	Connected = zkrecipes.Connected
	// Suspended: the connection is lost, but the session may still be alive; holds continue until their deadline.
	Suspended = zkrecipes.Suspended
	// Lost: the session is over, and with it every hold; the client opens a new one.
	Lost = zkrecipes.Lost
	// Closed: the client was closed.
	Closed = zkrecipes.Closed
)
