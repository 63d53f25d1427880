package session

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Multi applies the requests (*zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest) all
// or none. A create without an ACL takes the client's. It cannot create containers. If one of the requests is refused, its
// error is returned, and no response.
//
// Errors: the error of the refused request, nothing was applied; ErrUnknownOutcome if the reply was lost.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	responses, _, err := s.MultiZxid(ctx, ops...)
	return responses, err
}

// MultiZxid is Multi that also returns the zxid of the transaction, the czxid of the nodes it created.
func (s *Session) MultiZxid(ctx context.Context, ops ...any) ([]zk.MultiResponse, int64, error) {
	absolute, first, err := s.absolute(ops)
	if err != nil {
		return nil, 0, err
	}
	t, err := ask(ctx, s, "multi", first, writing, nil, func(done func(transaction, error)) request {
		return s.multiRequest(first, absolute, done)
	})
	if err != nil {
		return nil, 0, s.culprit(ops, t.responses, err)
	}
	return t.responses, t.zxid, nil
}

// transaction is the answer to a multi.
type transaction struct {
	responses []zk.MultiResponse
	zxid      int64
}

func (s *Session) multiRequest(path string, absolute []any, done func(transaction, error)) request {
	return request{wire.OpMulti, path, wire.MultiFrame(absolute), func(r reply, err error) {
		t := transaction{zxid: r.Zxid}
		if err == nil {
			if t.responses, err = wire.MultiReply(r.Body); len(t.responses) != len(absolute) {
				t.responses, err = nil, wire.ErrGarbled
			}
		}
		for i := range t.responses {
			t.responses[i].String = s.rel(t.responses[i].String)
		}
		done(t, err)
	}}
}

// culprit names the request that made a multi fail: the first with an error.
func (s *Session) culprit(ops []any, responses []zk.MultiResponse, err error) error {
	for i, r := range responses {
		if r.Error != nil {
			op, path := describe(ops[i])
			return &OpError{"multi: " + op, path, r.Error}
		}
	}
	return err
}

func describe(op any) (name, path string) {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return "create", r.Path
	case *zk.SetDataRequest:
		return "set", r.Path
	case *zk.DeleteRequest:
		return "delete", r.Path
	case *zk.CheckVersionRequest:
		return "check", r.Path
	default:
		return fmt.Sprintf("%T", op), ""
	}
}

// absolute returns the requests with the paths of the server, and the first path for messages.
func (s *Session) absolute(ops []any) (absolute []any, first string, err error) {
	if len(ops) == 0 {
		return nil, "", fmt.Errorf("multi: no requests")
	}
	for i, op := range ops {
		name, path := describe(op)
		if i == 0 {
			first = path
		}
		switch r := op.(type) {
		case *zk.CreateRequest:
			c := *r
			c.Path = s.abs(r.Path)
			if len(c.Acl) == 0 {
				c.Acl = s.core.opts.ACL
			}
			if c.Flags == zk.FlagContainer {
				return nil, "", &OpError{"multi: " + name, path, fmt.Errorf("a container cannot be created in a transaction")}
			}
			if c.Flags < 0 || c.Flags > zk.FlagContainer {
				return nil, "", &OpError{"multi: " + name, path, zk.ErrInvalidFlags}
			}
			absolute = append(absolute, &c)
		case *zk.SetDataRequest:
			absolute = append(absolute, &zk.SetDataRequest{Path: s.abs(r.Path), Data: r.Data, Version: r.Version})
		case *zk.DeleteRequest:
			absolute = append(absolute, &zk.DeleteRequest{Path: s.abs(r.Path), Version: r.Version})
		case *zk.CheckVersionRequest:
			absolute = append(absolute, &zk.CheckVersionRequest{Path: s.abs(r.Path), Version: r.Version})
		default:
			return nil, "", fmt.Errorf("multi: request %d is a %T: want *zk.CreateRequest, *zk.SetDataRequest, "+
				"*zk.DeleteRequest or *zk.CheckVersionRequest", i, op)
		}
		if err := checkPath("multi: "+name, path); err != nil {
			return nil, "", err
		}
	}
	return absolute, first, nil
}
