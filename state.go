package zkrecipes

import "fmt"

// State is the state of a client's connection and session: see conn.Client.States and conn.Client.Status.
type State int

// The states; package conn has the diagram.
const (
	// Connecting: there has been no session yet.
	Connecting State = iota
	// Connected: there is a session, and its connection has not been found dead. Status.LastAnswer says when a server
	// last answered.
	Connected
	// Suspended: the connection is lost, but the session may still be alive; holds last until their deadlines.
	Suspended
	// Lost: the session is over, and every hold with it; the client is opening a new one.
	Lost
	// Closed: the client was closed.
	Closed
)

// String returns the state as one lower-case word.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Lost:
		return "lost"
	case Closed:
		return "closed"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}
