package link

import (
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Granted returns the answer to the connect request.
func (c *Connection) Granted() (wire.Granted, error) {
	frame, err := readFrame(c.in, wire.MaxConnectReply)
	if err != nil {
		return wire.Granted{}, err
	}
	return wire.ConnectReply(frame)
}

// Show sends a credential, and returns the error code of the server's answer. The server answers it before all later
// requests. No request is in flight yet, so the next frame is the answer.
func (c *Connection) Show(scheme string, credential []byte) (code int32, err error) {
	h, _, err := c.ask(wire.AuthFrame(scheme, credential), wire.ReplyHeaderSize)
	if err == nil && h.Xid != wire.XidAuth {
		err = errors.New("no answer to a credential")
	}
	return h.Code, err
}

// longestToken bounds the tokens a server sends. Those of Kerberos may take several kilobytes.
const longestToken = 64 << 10

// Exchange sends a token of a SASL exchange, and returns the token in the server's answer, or nil if there is none, and
// the error code. As with Show, no request is in flight, so the next frame is the answer.
func (c *Connection) Exchange(token []byte) (answer []byte, code int32, err error) {
	xid := c.owner.NextXid()
	h, body, err := c.ask(wire.SASLFrame(xid, token), longestToken)
	switch {
	case err != nil || h.Code != 0: // a refusal may have no body
		return nil, h.Code, err
	case h.Xid != xid:
		return nil, 0, errors.New("no answer to a SASL token")
	}
	answer, err = wire.SASLAnswer(body)
	return answer, 0, err
}

// End closes the session, and returns the error code of the server's answer. As with Show, no request is in flight.
func (c *Connection) End() (code int32, err error) {
	xid, frame := c.owner.NextXid(), wire.CloseFrame()
	wire.SetXid(frame, xid)
	h, _, err := c.ask(frame, wire.MaxConnectReply)
	if err == nil && h.Xid != xid {
		err = errors.New("no answer to the end of the session")
	}
	return h.Code, err
}

// ask sends a frame, and reads one of at most the given number of bytes.
func (c *Connection) ask(frame []byte, most int) (wire.Header, []byte, error) {
	c.mu.Lock()
	c.enqueue(frame)
	c.flush()
	c.mu.Unlock()
	answer, err := readFrame(c.in, most)
	if err != nil {
		return wire.Header{}, nil, err
	}
	return wire.ReadHeader(answer)
}

// Up records that the server has given us a session with this timeout. From then on pings are sent, and the server may
// stay silent for two thirds of the timeout.
func (c *Connection) Up(timeout time.Duration) {
	c.patience = timeout * 2 / 3
	c.renewPatience()
	c.up.Store(true) // from now on bark counts, and not the limit of the attempt
	c.watchdog.Reset(c.patience)
	c.keepAlive(timeout / 3)
}
