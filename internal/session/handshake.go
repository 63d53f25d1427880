package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// dial is the zk.Dialer of a session: paced, bounded, and shut once the session is over. That is the gate: a library
// that would open another session in the same object finds no way to a server, see farewell.
func (s *session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	<-s.zkOK
	if s.pace.wait(s.ctx) != nil {
		return s.bye, nil
	}
	// Counted as failed until a link has lasted: a server that accepts and hangs up is paced like one that is down.
	s.pace.failed()
	by := time.Now().Add(s.core.opts.ConnectTimeout)
	ctx, cancel := context.WithDeadline(s.ctx, by)
	defer cancel()
	raw, err := s.core.opts.Dial(ctx, network, address)
	if err != nil {
		err = fmt.Errorf("connect to %s: %w", address, err)
		s.core.connectFailed(err)
		return nil, err
	}
	l := newLink(s, raw, address, by)
	if !s.attach(l) {
		_ = raw.Close() // nothing was sent on it
		return nil, s.Err()
	}
	return l, nil
}

// SetReadDeadline never lets the library wait beyond the handshake bound for the connect answer.
func (l *link) SetReadDeadline(t time.Time) error {
	l.patience = 0
	if !t.IsZero() {
		l.patience = time.Until(t)
	}
	return l.Conn.SetReadDeadline(l.clamp(t))
}

// SetWriteDeadline does the same for the connect request.
func (l *link) SetWriteDeadline(t time.Time) error { return l.Conn.SetWriteDeadline(l.clamp(t)) }

func (l *link) clamp(t time.Time) time.Time {
	if !l.up.Load() && (t.IsZero() || t.After(l.handshakeBy)) {
		return l.handshakeBy
	}
	return t
}

// connectReply reads the answer whole, since the library clears its deadline between length and body.
func (l *link) connectReply(head []byte, size int) error {
	if size < 20 || size > wire.MaxConnectReply {
		return fmt.Errorf("a frame of %d bytes is not a connect answer of ZooKeeper", size)
	}
	frame := slices.Concat(head, make([]byte, size))
	if _, err := io.ReadFull(l.in, frame[wire.PrefixSize:]); err != nil {
		return err
	}
	timeout := time.Duration(wire.Int32At(frame, wire.PrefixSize+4)) * time.Millisecond
	id := wire.Int64At(frame, wire.PrefixSize+8)
	password := wire.StringAt(frame, wire.PrefixSize+16)
	l.head = frame
	if id == 0 || timeout <= 0 {
		// The library takes this for its cue to open another session in the same object; the dialer refuses it.
		l.session.end(lost(zkrecipes.LossExpired, time.Now(), nil))
		if id != 0 {
			return errors.New("a session without a timeout") // at which the library would panic
		}
		return nil
	}
	for _, c := range l.session.core.opts.Auth {
		if err := l.authenticate(c); err != nil {
			return err
		}
	}
	l.up.Store(true)
	if err := l.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if !l.session.linkUp(l, id, []byte(password), timeout) {
		return errors.New("the session is over")
	}
	l.session.nowUp(l)
	return nil
}

// authenticate sends a credential and waits for the verdict. Nothing else is on its way yet: what comes is the answer.
func (l *link) authenticate(c Credential) error {
	if _, err := l.Conn.Write(wire.AuthFrame(c.Scheme, c.Credential)); err != nil {
		return err
	}
	var answer [wire.PrefixSize + wire.ReplyHeaderSize]byte
	if _, err := io.ReadFull(l.in, answer[:]); err != nil {
		return err
	}
	if wire.Int32At(answer[:], 0) != wire.ReplyHeaderSize || wire.Int32At(answer[:], wire.PrefixSize) != wire.XidAuth {
		return errors.New("no answer to a credential")
	}
	if code := wire.Int32At(answer[:], wire.PrefixSize+12); code != 0 {
		l.session.end(lost(zkrecipes.LossRefused, time.Now(), fmt.Errorf("%w (%d)", ErrAuthFailed, code)))
		return ErrAuthFailed
	}
	return nil
}
