package session

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// request is one of ours.
type request struct {
	op    int32
	frame []byte // its xid is still to be set
	// answer takes the reply, or the error that there will be none. It is called once, on a goroutine of the session
	// that may read nothing else meanwhile.
	answer func(reply, error)
}

type reply struct {
	zxid int64
	body []byte
}

// send queues the requests, which go out in this order, and calls sent, if not nil, when whatever is asked from now on is
// asked after them.
func (s *session) send(sent func(), requests []request) {
	if !s.sendNow(sent, requests) {
		for _, r := range requests {
			r.answer(reply{}, zk.ErrNoServer)
		}
	}
}

// sendNow is send that reports false, and does nothing, without a connection.
func (s *session) sendNow(sent func(), requests []request) bool {
	c := s.upConnection()
	if c == nil || !c.ask(requests) {
		return false
	}
	if sent != nil {
		sent()
	}
	return true
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
