package lifetime

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Request is one request to the server.
type Request struct {
	Op    int32
	Path  string                  // as the client sees it
	Frame []byte                  // without its xid, which is set later
	Done  func(link.Reply, error) // see [link.Request]

	// The bytes of the ephemeral nodes that it creates, which the caller counts before it sends the request.
	Ephemerals int

	barrier bool // made by BarrierRequest
}

// Send sends the requests in this order, without waiting, and calls sent, if not nil, once all later requests of the
// session are certain to reach the server after these. Requests made by sent go out in the same write; sent must not
// block. Without a connection, Send completes the requests with zk.ErrNoServer.
func (l *Lifetime) Send(ctx context.Context, sent func(), requests []Request) {
	if !l.SendNow(ctx, sent, requests) {
		for _, r := range requests {
			r.Done(link.Reply{}, zk.ErrNoServer)
		}
	}
}

// SendNow is Send, but without a connection it does nothing and reports false.
func (l *Lifetime) SendNow(ctx context.Context, sent func(), requests []Request) bool {
	c := l.upConnection()
	return c != nil && l.sendOn(ctx, c, sent, requests)
}

// sendOn sends the requests on a connection, in this order. If the connection is closed, sendOn does nothing and
// reports false. The context is for tracers.
func (l *Lifetime) sendOn(ctx context.Context, c *link.Connection, sent func(), requests []Request) bool {
	return c.Ask(l.appendTraced(ctx, make([]link.Request, 0, 4), requests), sent) // a few need no heap allocation
}

func (l *Lifetime) appendTraced(ctx context.Context, asked []link.Request, requests []Request) []link.Request {
	for _, r := range requests {
		if tracers := l.opts.Tracers; tracers.ObserveRequests() {
			r.Done = traced(ctx, tracers, r)
		}
		asked = append(asked, link.Request{Op: r.Op, Frame: r.Frame, Done: r.Done})
	}
	return asked
}

// SyncRequest makes the server catch up with the leader before it serves later requests. abs is the path on the server.
func SyncRequest(abs, path string, done func(error)) Request {
	return Request{Op: wire.OpSync, Path: path, Frame: wire.SyncFrame(abs), Done: func(r link.Reply, err error) {
		if err == nil {
			_, err = wire.CreateReply(r.Body)
		}
		done(err)
	}}
}

// BarrierRequest checks the version of the root, a transaction that changes nothing. In doing so the leader checks the
// session, and refuses if another server owns it by now.
func BarrierRequest(done func(error)) Request {
	check := []any{&zk.CheckVersionRequest{Path: "/", Version: -1}}
	r := Request{Op: wire.OpMulti, Path: "/", Frame: wire.MultiFrame(check), barrier: true}
	r.Done = func(r link.Reply, err error) {
		if err == nil {
			var answers []zk.MultiResponse
			if answers, err = wire.MultiReply(r.Body, len(check)); len(answers) != len(check) {
				err = wire.ErrGarbled
			}
		}
		if errors.Is(err, zk.ErrNoAuth) {
			err = nil // no permission to read the root, but a quorum has agreed
		}
		done(err)
	}
	return r
}
