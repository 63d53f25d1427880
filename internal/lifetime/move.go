package lifetime

import (
	"errors"
	"time"
)

// ErrMoves is the reason a connection ends when the client leaves it for another server.
var ErrMoves = errors.New("moving to another server")

// Move ends the connection, so that the next round connects to another server. If the session is busy, it does nothing
// and reports false.
//
// For a session this is like any lost connection, with nothing more promised and nothing more relied on: the proof is
// that of the answers received so far, the next connection resumes the session, and all watches are read again. It can
// therefore cost only time, and at a quiet moment there is enough. The proof lasts for half of the session timeout, and
// long enough for the client to get the servers (half a connect timeout), resolve their names, and find that the other
// server swallows packets (one each); then it returns to the server that it has left. If the other server has accepted
// the connection, it may have resumed the session with the least timeout, which must last for that attempt and the way
// back.
//
// No reply is lost, because nothing is in flight. No hold ends with the connection: while there is one
// WithLossOnSuspend, no moment is quiet. A hold that is made between the check and the end is lost as by any other
// disconnect. The connection has lasted, so the next round begins without a pause.
func (l *Lifetime) Move() bool {
	l.mu.Lock()
	c, quiet := l.connection, l.lost == nil && l.isUp()
	if attempt := l.ensemble.ConnectTimeout(); len(l.callbacks) > 0 {
		quiet = quiet && time.Until(l.upkeep.ValidUntil()) > max(l.upkeep.Timeout()/2, attempt*5/2) &&
			l.upkeep.LastsUnanswered() > attempt*3/2
	}
	for callback := range l.callbacks {
		quiet = quiet && !callback.onSuspend
	}
	l.mu.Unlock()
	return quiet && c.Lasted() && c.FailIdle(ErrMoves)
}
