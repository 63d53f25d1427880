package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// connectFrame asks for the session with the timeout that it was granted, or for a new one if no server has given it yet. The
// newest zxid seen goes with it: it keeps us from a server that lags behind.
func (s *session) connectFrame() []byte {
	zxid := s.lastZxid()
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.ConnectFrame(zxid, cmp.Or(s.proof.timeout, s.core.opts.SessionTimeout), s.id, s.password)
}

// handshake takes in the answer to the connect request and shows the credentials. Requests go out after it.
//
// If the session ended here meanwhile, that is no error: goodbye is on its way, and the server may still answer it.
func (s *session) handshake(l *link) error {
	frame, err := readFrame(l.in, wire.MaxConnectReply)
	if err == io.EOF { //nolint:errorlint // wrapped, it would not be the end between two frames
		s.hungUp(l)
	}
	if err != nil {
		return err
	}
	g, err := wire.ConnectReply(frame)
	if err != nil {
		return err
	}
	if g.ID == 0 || g.Timeout <= 0 {
		s.end(lost(zkrecipes.LossExpired, time.Now(), nil))
		return errExpired
	}
	if !s.identify(g.ID, g.Password) {
		return errExpired
	}
	for _, c := range s.core.opts.Auth {
		if s.ended() {
			return nil
		}
		if err := s.authenticate(l, c); err != nil {
			return err
		}
	}
	if s.linkUp(l, g.Timeout) {
		l.patience = g.Timeout * 2 / 3
		l.watchdog.Reset(l.patience)
		l.keepAlive(g.Timeout / 3)
		s.nowUp(l)
	}
	return nil
}

var errExpired = errors.New("the session has expired")

// authenticate shows a credential and waits for the verdict. Nothing else is on its way yet: what comes is the answer.
func (s *session) authenticate(l *link, c Credential) error {
	l.show(wire.AuthFrame(c.Scheme, c.Credential))
	frame, err := readFrame(l.in, wire.ReplyHeaderSize)
	if err != nil {
		return err
	}
	h, _, err := wire.ReadHeader(frame)
	if err != nil || h.Xid != wire.XidAuth {
		return errors.New("no answer to a credential")
	}
	if h.Code != 0 {
		s.end(lost(zkrecipes.LossRefused, time.Now(), fmt.Errorf("%w (%d)", ErrAuthFailed, h.Code)))
		return ErrAuthFailed
	}
	return nil
}
