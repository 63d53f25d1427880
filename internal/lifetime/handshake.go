package lifetime

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// connectFrame requests the session with the timeout that it was granted, or a new one if no server has given it yet.
// It includes the latest zxid seen, so that a server that lags behind refuses us.
func (l *Lifetime) connectFrame() []byte {
	zxid := l.lastZxid()
	l.mu.Lock()
	defer l.mu.Unlock()
	return wire.ConnectFrame(zxid, cmp.Or(l.upkeep.Timeout(), l.opts.SessionTimeout), l.id, l.password)
}

// handshake processes the answer to the connect request and sends the credentials. Requests are sent after it.
//
// It is not an error if the session ends here during the handshake, at whatever moment: the close request is in flight,
// and the server may still answer it. connectionUp then admits nothing.
func (l *Lifetime) handshake(c *link.Connection, sent time.Time, who *exchange, a *attempt) error {
	g, err := c.Granted()
	// Only an orderly end, between two frames, comes from a server that lags behind; see lastZxid. If this client has
	// closed the connection, its end proves nothing about the server: some connections then read as ended.
	if err == io.EOF && c.Reason() == nil { //nolint:errorlint // see above
		l.ensemble.refused()
	}
	if err != nil {
		return err
	}
	if g.ID == 0 || g.Timeout <= 0 {
		l.traceConnect(a, errExpired)
		l.end(lost(zkrecipes.LossExpired, time.Now(), nil))
		return errExpired
	}
	if !l.identify(g.ID, g.Password) {
		l.traceConnect(a, errExpired)
		return errExpired
	}
	// The server applies the grant from now on, even if the credentials are never answered.
	if !l.takeTimeout(sent, g.Timeout) {
		return nil
	}
	if err := l.opts.authenticate(c, who); err != nil {
		return err
	}
	// This precedes every call that the session admits.
	l.traceConnect(a, nil)
	c.Up(g.Timeout)
	l.connectionUp()
	return nil
}

var errExpired = errors.New("the session has expired")

// authenticate performs the SASL exchange, if there is one, and sends the credentials.
func (o *Config) authenticate(c *link.Connection, who *exchange) error {
	if who != nil {
		if err := o.exchange(c, who); err != nil {
			return err
		}
	}
	for _, shown := range o.Auth {
		code, err := c.Show(shown.Scheme, shown.Credential)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("%w: check the scheme and the credential given to WithAuth (%s, %d)", zkrecipes.ErrAuthFailed,
				shown.Scheme, code)
		}
	}
	return nil
}

// identify records the id and the password that the server gave. If the server gave a session other than ours, it ends
// the session and reports false: a server that cannot resume a session may open a new one instead of reporting that.
func (l *Lifetime) identify(id int64, password []byte) bool {
	l.mu.Lock()
	ours := l.id == 0 || l.id == id
	if ours {
		l.id, l.password = id, password
	}
	l.mu.Unlock()
	if !ours {
		l.end(lost(zkrecipes.LossExpired, time.Now(),
			fmt.Errorf("the server answered with another session, 0x%x", uint64(id))))
	}
	return ours
}

// takeTimeout records the answer to the connect request, which was sent at the given time, as proof. It reports false
// if the session ends because of the answer.
func (l *Lifetime) takeTimeout(sent time.Time, timeout time.Duration) bool {
	now := time.Now() // later than the answer was read, which can only end a hold earlier
	l.endIfDue(now)
	l.mu.Lock()
	first := l.upkeep.Timeout() == 0
	l.ensemble.granted.Store(int64(timeout))
	least := l.upkeep.Least()
	l.upkeep.Connected(sent, now, timeout)
	l.answer = Answer{now, now.Sub(sent)}
	l.deadlineMoved()
	hopeless := l.upkeep.Hopeless()
	tooShort := l.upkeep.TooShort() && l.upkeep.Least() != least
	l.mu.Unlock()
	if tooShort { // without a tick, the timeout never is
		l.opts.Log.Warn("zookeeper: the session timeout is too short for WithTickTime: holds are lost soon, "+
			"even while the servers are healthy", "timeout", timeout, "tick", l.opts.Tick)
	}
	if hopeless {
		l.end(lost(zkrecipes.LossDeadline, now,
			fmt.Errorf("a session with a timeout of %v was resumed with %v, and can no longer be proven alive: "+
				"configure the same session timeout limits on all servers, and set WithTickTime", least, timeout)))
		return false
	}
	if first {
		l.client.Start(l.ctx, l.runHeartbeat)
	}
	return true
}

// lastZxid returns the zxid for a connect request. A server that has not seen it yet refuses us, so reads never go back
// in time. If servers have only refused for a whole timeout, perhaps no server will ever reach that zxid again: the
// ensemble was restored from a backup, or created from scratch. A new session then begins without one.
func (l *Lifetime) lastZxid() int64 {
	if l.ID() == 0 && l.ensemble.refusedFor() >= l.ensemble.Timeout() {
		return 0
	}
	return l.zxid.Load()
}

// resuming records that a connect request is about to be sent. If it resumes the session, the timeout that the server
// grants is unknown until the answer arrives.
func (l *Lifetime) resuming(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == 0 {
		return
	}
	l.upkeep.Resuming(sent)
	l.deadlineMoved()
}
