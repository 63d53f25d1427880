package request

import (
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// HandshakeLimit is how long a connection may take for its handshake.
//
// Source: zookeeper.nio.sessionlessCnxnTimeout.
const HandshakeLimit = 10 * time.Second

// Hello is a handshake request.
type Hello struct {
	ID       int64 // of the session; 0 for a new one
	lastZxid int64
	timeout  int32 // in milliseconds
	passwd   []byte
	modern   bool // carries the read-only flag
	readOnly bool // the client accepts a read-only server
}

// ReadHello parses a handshake. It returns false if the handshake is malformed.
func ReadHello(frame []byte) (h Hello, ok bool) {
	d := &proto.Decoder{B: frame}
	d.Int32() // protocol version
	h.lastZxid, h.timeout, h.ID, h.passwd = d.Int64(), d.Int32(), d.Int64(), d.Bytes()
	h.modern = len(d.B) > 0
	h.readOnly = h.modern && d.Bool()
	return h, !d.Bad
}

// Admitted reports whether the front serves the client at all. A read-only front serves no session of the majority.
func (h Hello) Admitted(f *ensemble.Front) bool {
	ses := f.Ensemble.Sessions[h.ID]
	switch f.Role {
	case ensemble.Looking, ensemble.Absent:
		return false
	case ensemble.ReadingOnly:
		if !h.readOnly || ses != nil && ses.Local == nil {
			return false
		}
	default:
	}
	return h.lastZxid <= f.LastZxid()
}

// Attach opens or resumes the session. It returns nil if there is none.
func (h Hello) Attach(c *ensemble.Client) *ensemble.Session {
	e := c.Front.Ensemble
	return e.Attach(c, h.ID, h.passwd, min(max(time.Duration(h.timeout)*time.Millisecond, e.MinTimeout), e.MaxTimeout))
}

// Welcome answers a handshake.
func (h Hello) Welcome(e *proto.Encoder, f *ensemble.Front, ses *ensemble.Session) {
	e.Int32(0)
	if ses == nil {
		e.Int32(0)
		e.Int64(0)
		e.Bytes(make([]byte, 16))
	} else {
		e.Int32(int32(ses.Timeout / time.Millisecond))
		e.Int64(ses.ID)
		e.Bytes(ses.Password())
	}
	if h.modern || f.Ensemble.Traits.ReadOnlyFlagEver {
		e.Bool(f.Role == ensemble.ReadingOnly)
	}
}
