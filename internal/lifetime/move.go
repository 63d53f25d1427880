package lifetime

import (
	"errors"
	"time"
)

// ErrMoves is why a connection ends that was left for another server.
var ErrMoves = errors.New("moving to another server")

// Move ends the connection, so that the next round connects to another server. It reports false, and does nothing, if this is no
// quiet moment.
//
// For a session this is what any lost connection is, with no more promised and no more relied on: the proof is that of the answers that
// have come, the next connection resumes the session, and all watches are read again. So it can cost time only, and at a quiet moment
// there is enough. The proof lasts for half of the session timeout, and while the client asks for the servers (half a connect
// timeout), looks up their names, and finds that the other server swallows packets (one each); then it comes back to the one that it has left.
//
// No reply is lost, because nothing is on its way. No hold ends with the connection: while there is one WithLossOnSuspend, there is no
// quiet moment. If one is made between the look and the end, it is lost as by any other disconnect. And the connection has lasted, so
// the next round begins without a pause.
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
