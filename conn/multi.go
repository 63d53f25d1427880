package conn

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Multi applies the requests (*zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest) all
// or none. A create without an ACL takes the client's. Containers cannot be created in it: go-zookeeper could not read
// the answer. If one of the requests is refused, its error is returned, and no response.
//
// Errors: that of the request refused, nothing was applied; ErrUnknownOutcome if the reply was lost.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	responses, _, err := s.MultiZxid(ctx, ops...)
	return responses, err
}

// MultiZxid is Multi that also returns the zxid of the transaction, the czxid of the nodes it created. It is known if
// the first request is a create whose path is unique to this call, and 0 otherwise.
func (s *Session) MultiZxid(ctx context.Context, ops ...any) ([]zk.MultiResponse, int64, error) {
	absolute, first, err := s.absolute(ops)
	if err != nil {
		return nil, 0, err
	}
	creation := &Creation{sent: make(chan struct{})}
	if create, ok := absolute[0].(*zk.CreateRequest); ok {
		s.expectCreation(create.Path, creation)
		defer s.forgetCreation(create.Path, creation)
	}
	responses, err := perform(ctx, s, "multi", first, writing, func(z *zk.Conn) ([]zk.MultiResponse, error) {
		return z.Multi(absolute...)
	})
	if err != nil {
		return nil, 0, s.culprit(ops, responses, err)
	}
	for i := range responses {
		responses[i].String = s.rel(responses[i].String)
	}
	return responses, creation.zxid.Load(), nil
}

// culprit names the request that made a multi fail: the first with an error.
func (s *Session) culprit(ops []any, responses []zk.MultiResponse, err error) error {
	for i, r := range responses {
		if r.Error != nil && i < len(ops) {
			op, path := describe(ops[i])
			cause, _ := classify(r.Error)
			return &OpError{"multi: " + op, path, cause}
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
	size := 0
	for i, op := range ops {
		name, path := describe(op)
		if i == 0 {
			first = path
		}
		var payload []byte
		switch r := op.(type) {
		case *zk.CreateRequest:
			c := *r
			c.Path = s.abs(r.Path)
			if len(c.Acl) == 0 {
				c.Acl = s.core.opts.acl
			}
			if c.Flags == zk.FlagContainer {
				return nil, "", &OpError{"multi: " + name, path, fmt.Errorf("a container cannot be created in a transaction")}
			}
			if c.Flags < 0 || c.Flags > zk.FlagContainer {
				return nil, "", &OpError{"multi: " + name, path, zk.ErrInvalidFlags}
			}
			payload = c.Data
			absolute = append(absolute, &c)
		case *zk.SetDataRequest:
			absolute = append(absolute, &zk.SetDataRequest{Path: s.abs(r.Path), Data: r.Data, Version: r.Version})
			payload = r.Data
		case *zk.DeleteRequest:
			absolute = append(absolute, &zk.DeleteRequest{Path: s.abs(r.Path), Version: r.Version})
		case *zk.CheckVersionRequest:
			absolute = append(absolute, &zk.CheckVersionRequest{Path: s.abs(r.Path), Version: r.Version})
		default:
			return nil, "", fmt.Errorf("multi: request %d is a %T: want *zk.CreateRequest, *zk.SetDataRequest, "+
				"*zk.DeleteRequest or *zk.CheckVersionRequest", i, op)
		}
		size += len(path) + len(payload) + 64
		if err := checkRequest("multi: "+name, path, size); err != nil {
			return nil, "", err
		}
	}
	return absolute, first, nil
}
