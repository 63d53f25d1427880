package lifetime

import (
	"errors"
	"time"
)

// ErrMoves is why a connection ends that was left for another server.
var ErrMoves = errors.New("moving to another server")

// Move ends the connection, so that the next round connects to another server. It reports false, and does nothing, if
// the session is busy.
//
// For a session this is like any lost connection, with nothing more promised and nothing more relied on: the proof is
// that of the answers that have come, the next connection resumes the session, and all watches are read again. It can
// therefore cost only time, and at a quiet moment there is enough. The proof lasts for half of the session timeout,
// and while the client gets the servers (half a connect timeout), looks up their names, and finds that the other
// server swallows packets (one each); then it returns to the one that it has left.
//
// No reply is lost, because nothing is in flight. No hold ends with the connection: while there is one
// WithLossOnSuspend, there is no quiet moment. If one is made between the check and the end, it is lost as by any
// other disconnect. And the connection has lasted, so the next round begins without a pause.
func (l *Lifetime) Move() bool {
	l.mu.Lock()
	c, quiet := l.connection, l.lost == nil && l.isUp()
	if len(l.callbacks) > 0 {
		quiet = quiet && time.Until(l.upkeep.ValidUntil()) > max(l.upkeep.Timeout()/2, l.ensemble.ConnectTimeout()*5/2)
	}
	for callback := range l.callbacks {
		quiet = quiet && !callback.onSuspend
	}
	l.mu.Unlock()
	return quiet && c.Lasted() && c.FailIdle(ErrMoves)
}
