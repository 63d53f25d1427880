package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/link"
)

// request is one request to the server.
type request struct {
	op     int32
	path   string             // as the client sees it
	frame  []byte             // its xid is still to be set
	answer func(reply, error) // see [link.Request]
}

type reply = link.Reply

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
	if c == nil || !s.sendOn(ctx, c, requests) {
		return false
	}
	if sent != nil {
		sent()
	}
	return true
}

// sendOn sends the requests on a connection, in this order. On one that is closed it reports false and does nothing. The context
// is for tracers.
func (s *session) sendOn(ctx context.Context, c *link.Connection, requests []request) bool {
	asked := make([]link.Request, 0, 4) // so that few take no memory of the heap
	for _, r := range requests {
		if tracers := s.opts.Tracers; tracers.ObserveRequests() {
			r.answer = traced(ctx, tracers, r)
		}
		asked = append(asked, link.Request{Op: r.op, Frame: r.frame, Answer: r.answer})
	}
	return c.Ask(asked)
}

// taking returns an answer function that decodes the reply with read and passes the value to done.
func taking[T any](read func(body []byte) (T, error), done func(T, error)) func(reply, error) {
	return func(r reply, err error) {
		var v T
		if err == nil {
			v, err = read(r.Body)
		}
		done(v, err)
	}
}
