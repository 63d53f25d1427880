package session

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// request is one request to the server.
type request struct {
	op    int32
	path  string // as the client sees it
	frame []byte // its xid is still to be set
	// answer takes the reply, or the error that there will be none. It is called once, mostly on the goroutine that reads
	// from the connection, and must not wait for anything.
	answer func(reply, error)
}

type reply struct {
	zxid int64
	body []byte
	at   time.Time // when it came; zero if there is none
}

// send sends the requests in this order, without waiting, and then calls sent, if not nil: all later requests of the session
// reach the server after these. Without a connection it answers them with zk.ErrNoServer.
func (s *session) send(ctx context.Context, sent func(), requests []request) {
	if !s.sendNow(ctx, sent, requests) {
		for _, r := range requests {
			r.answer(reply{}, zk.ErrNoServer)
		}
	}
}

// sendNow is send, but without a connection it reports false and does nothing.
func (s *session) sendNow(ctx context.Context, sent func(), requests []request) bool {
	c := s.upConnection()
	if c == nil || !c.ask(ctx, requests) {
		return false
	}
	if sent != nil {
		sent()
	}
	return true
}

// taking returns an answer function that decodes the reply with read and passes the value to done.
func taking[T any](read func(body []byte) (T, error), done func(T, error)) func(reply, error) {
	return func(r reply, err error) {
		var v T
		if err == nil {
			v, err = read(r.body)
		}
		done(v, err)
	}
}

// witnessOf says which server stands behind an answer to the opcode.
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
