package session

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Requests go past the library, straight to the link and back. A call of the library's takes two goroutines more to go out
// and one more to come back, which is most of what it costs a client. The library opens the session, keeps it with its
// pings, and closes it.

// request is one of ours.
type request struct {
	op    int32
	frame []byte // its xid is still to be set
	// answer takes the reply, or the error that there will be none. It is called once, on a goroutine of the session
	// that may read nothing else meanwhile.
	answer func(reply, error)
}

// checkSize refuses a request of so many bytes if the server would: it hangs up on whoever sends it, and so on everybody
// else in the session, and again when that is repeated.
func checkSize(op, path string, size int) error {
	if size > wire.MaxRequest {
		return &OpError{op, path, fmt.Errorf("%w: %d bytes", ErrTooLarge, size)}
	}
	return nil
}

type reply struct {
	zxid int64
	body []byte
}

// send sends the requests in one go, and calls sent, if not nil, when they are out. It may wait for the connection to take
// them.
func (s *session) send(sent func(), requests []request) {
	if l := s.upLink(); l == nil || !l.ask(sent, requests) {
		for _, r := range requests {
			r.answer(reply{}, zk.ErrNoServer)
		}
	}
}

// sendNow is send for one who must not wait. It reports false, and does nothing, if that might be needed.
func (s *session) sendNow(sent func(), requests []request) bool {
	l := s.upLink()
	return l != nil && l.askNow(sent, requests)
}

// taking is the answer for one that takes what read makes of the reply.
func taking[T any](read func(body []byte) (T, error), done func(T, error)) func(reply, error) {
	return func(r reply, err error) {
		var v T
		if err == nil {
			v, err = read(r.body)
		}
		done(v, err)
	}
}

// witnessOf says who stands behind an answer to the opcode.
func witnessOf(op, code int32) witness {
	switch op {
	case wire.OpSync:
		return leader
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		if code == 0 {
			return quorum
		}
		return leader
	default:
		return anyServer
	}
}
