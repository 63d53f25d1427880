package session

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// farewell is what the library is connected to once its session is over, if it is not connected to a server. It grants a
// session and answers the library's Close. The library has no other place where it is sure to notice that: in its pause
// between servers, and when a connection has just ended, it may be gone before the request of its Close is queued, which
// then waits a second for an answer.
type farewell struct {
	greeted chan struct{} // closed once the library has been granted the session: from now on it notices
	greet   func()        // closes greeted
	over    chan struct{}
	close   func() // closes over

	answers chan []byte
	answer  []byte // what is left of the one that is being read; of the reading side
	met     bool   // the connect request has come; of the writing side
}

func newFarewell() *farewell {
	f := &farewell{greeted: make(chan struct{}), over: make(chan struct{}), answers: make(chan []byte, 2)}
	f.greet = sync.OnceFunc(func() { close(f.greeted) })
	f.close = sync.OnceFunc(func() { close(f.over) })
	return f
}

// Write takes one frame, as the library writes them: the connect request, then the one that closes. It has a day until it
// pings. Should there be another request after all, there is no server to execute it.
func (f *farewell) Write(frame []byte) (int, error) {
	answer := make([]byte, wire.PrefixSize)
	if !f.met {
		f.met = true
		answer = wire.AppendInt32(answer, 0)
		answer = wire.AppendInt32(answer, int32((24 * time.Hour).Milliseconds()))
		answer = binary.BigEndian.AppendUint64(answer, 1)
		answer = wire.AppendBuffer(answer, make([]byte, 16))
	} else {
		answer = wire.AppendInt32(answer, wire.Int32At(frame, wire.PrefixSize))
		answer = binary.BigEndian.AppendUint64(answer, 0)
		code := int32(0)
		if wire.Int32At(frame, wire.PrefixSize+4) != wire.OpClose {
			code = -112 // the session has expired
		}
		answer = wire.AppendInt32(answer, code)
	}
	select {
	case f.answers <- wire.Seal(answer):
	case <-f.over:
		return 0, net.ErrClosed
	}
	return len(frame), nil
}

// Read is called by the library until it has the answer to its Close.
func (f *farewell) Read(p []byte) (int, error) {
	if len(f.answer) == 0 {
		select {
		case f.answer = <-f.answers:
		case <-f.over:
			return 0, io.EOF
		}
	}
	n := copy(p, f.answer)
	if f.answer = f.answer[n:]; len(f.answer) == 0 {
		f.greet()
	}
	return n, nil
}

// Close is part of net.Conn, as what follows.
func (f *farewell) Close() error {
	f.close()
	return nil
}

func (*farewell) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*farewell) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*farewell) SetDeadline(time.Time) error      { return nil }
func (*farewell) SetReadDeadline(time.Time) error  { return nil }
func (*farewell) SetWriteDeadline(time.Time) error { return nil }
