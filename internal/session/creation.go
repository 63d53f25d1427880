package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Creation is a create on its way. It goes on whatever becomes of the caller.
type Creation struct {
	call[[]string]
	zxid     int64 // valid once the call is done
	sent     chan struct{}
	markSent func() // closes sent
}

// Along is what goes along with a creation.
type Along struct {
	Leave  []string // nodes that are deleted in the same transaction, whatever their version
	Listed Listed   // is called once with the children of the parent, asked for right behind the creation; nil is nobody
}

// StartCreate begins to create n nodes of one name, in one transaction, and does not wait for the answer. The last part
// of path must be unique to this call, as a name with a GUID is; more than one node must be sequential. A container can
// only be made alone.
//
// Errors: a bad path, too large a request, ErrClosed, the session's own or the cause of ctx; nothing was sent, and nothing
// along with it.
func (s *Session) StartCreate(ctx context.Context, path string, data []byte, flags int32, n int, along Along) (*Creation, error) {
	if err := checkPath("create", path); err != nil {
		return nil, err
	}
	for _, path := range along.Leave {
		if err := checkPath("delete", path); err != nil {
			return nil, err
		}
	}
	c := &Creation{call: *newCall[[]string]("create", path, writing), sent: make(chan struct{})}
	c.markSent = sync.OnceFunc(func() { close(c.sent) })
	requests := []request{s.createRequest(c, data, flags, n, along.Leave)}
	if along.Listed != nil {
		parent := path[:max(1, strings.LastIndexByte(path, '/'))]
		requests = append(requests, s.childrenRequest(parent, false, s.firstAnswer(parent, nil, along.Listed)))
	}
	if err := launch(ctx, s, &c.call, c.markSent, requests...); err != nil {
		return nil, err
	}
	return c, nil
}

// CheckCreate returns the error of [Session.StartCreate] that can be told without a session: that of a bad path, or of a
// request that would be too large with everything that is to be left.
func (c *Client) CheckCreate(path string, data []byte, n int, leave ...string) error {
	if err := checkPath("create", path); err != nil {
		return err
	}
	size := wire.OpSize(&zk.CreateRequest{Path: c.Abs(path), Data: data, Acl: c.core.opts.ACL})
	size *= min(n, wire.MaxRequest/size+1) // n may be any number
	for _, path := range leave {
		size += wire.OpSize(&zk.DeleteRequest{Path: c.Abs(path), Version: -1})
	}
	return checkSize("create", path, size+len(wire.MultiFrame(nil)))
}

// ErrNotLeft says that a node that was to be deleted together with a creation was not there: nothing was created.
var ErrNotLeft = errors.New("not there to be deleted, and so nothing was created")

// createRequest returns the request of c: a transaction only if there is more than one thing to do.
func (s *Session) createRequest(c *Creation, data []byte, flags int32, n int, leave []string) request {
	done := func(paths []string, zxid int64, err error) {
		c.zxid = zxid
		c.markSent() // also if it was not
		c.end(paths, err)
	}
	one := &zk.CreateRequest{Path: s.abs(c.path), Data: data, Acl: s.core.opts.ACL, Flags: flags}
	if n == 1 && len(leave) == 0 {
		return request{wire.OpCreate, wire.CreateFrame(wire.OpCreate, one), func(r reply, err error) {
			var created string
			if err == nil {
				created, err = wire.CreateReply(r.body)
			}
			done([]string{s.rel(created)}, r.zxid, err)
		}}
	}
	ops := slices.Repeat([]any{one}, n)
	for _, path := range leave {
		ops = append(ops, &zk.DeleteRequest{Path: s.abs(path), Version: -1})
	}
	return s.multiRequest(ops, func(t transaction, err error) {
		var paths []string
		for i, r := range t.responses {
			switch {
			case i < n:
				paths = append(paths, r.String)
			case errors.Is(r.Error, zk.ErrNoNode):
				err = fmt.Errorf("%s: %w", leave[i-n], ErrNotLeft)
			}
		}
		done(paths, t.zxid, err)
	})
}

// Sent is closed once the request has been handed to the connection: whatever is asked from now on is asked after it.
// It is closed before Done, also if the request was not sent at all.
func (c *Creation) Sent() <-chan struct{} { return c.sent }

// Done is closed once the call has come back, with an answer or without.
func (c *Creation) Done() <-chan struct{} { return c.done }

// FinishCreate waits for the answer. zxid is that of the transaction that made the nodes, their czxid.
//
// Errors: as for Create; ErrNotLeft if a node to leave was missing. With ErrUnknownOutcome the nodes may exist, or, if
// ctx ended, come to exist before Done.
func (s *Session) FinishCreate(ctx context.Context, c *Creation) (paths []string, zxid int64, err error) {
	paths, err = finish(ctx, s, &c.call)
	if err != nil {
		return nil, 0, err
	}
	return paths, c.zxid, nil
}
