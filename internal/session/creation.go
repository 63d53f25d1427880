package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/tally"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Creation is a create in flight. It continues if its caller gives up.
type Creation struct {
	call[[]string]
	zxid int64     // valid once the call is done
	one  [1]string // memory for the value
}

// StartCreate begins to create n nodes with the same name in one transaction, without waiting for the answer. It calls
// sent, if not nil, once all later requests of the session are certain to reach the server after this one. Requests
// made by sent go out in the same write; sent must not block. It is not called if there is no connection, in which case
// the create has failed. The nodes to remove are deleted in the same transaction, whatever their version. The last
// element of path must be unique to this call, like a name with a GUID. If there is more than one node, they must be
// sequential. A container can only be created alone.
//
// Errors: an invalid path, a request that is too large, ErrSessionFull, the error of WithACLFunc, ErrClosed, the
// session's own or the cause of ctx. In each case, nothing was sent.
func (s *Session) StartCreate(
	ctx context.Context, path string, data []byte, flags int32, n int, sent func(), remove ...string,
) (*Creation, error) {
	return s.StartCreateFor(ctx, path, data, flags, nil, n, sent, remove...)
}

// StartCreateFor is StartCreate with an ACL; see [Config.ACLOf].
func (s *Session) StartCreateFor(
	ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL, n int, sent func(), remove ...string,
) (*Creation, error) {
	if err := paths.Check("create", path); err != nil {
		return nil, err
	}
	for _, path := range remove {
		if err := paths.Check("delete", path); err != nil {
			return nil, err
		}
	}
	acl, err := s.opts.ACLOf(s.absNew(path, flags), acl)
	if err != nil {
		return nil, &OpError{Op: "create", Path: path, Err: err}
	}
	c := &Creation{call: *newCall[[]string]("create", path, once)}
	if err := launch(ctx, s, &c.call, sent, s.createRequest(c, data, flags, acl, n, remove)); err != nil {
		return nil, err
	}
	return c, nil
}

// createRequest returns the request for c. It is a transaction only if it has more than one operation.
func (s *Session) createRequest(c *Creation, data []byte, flags int32, acl []zk.ACL, n int, remove []string) request {
	one := zk.CreateRequest{Path: s.absNew(c.path, flags), Data: data, Acl: acl, Flags: flags}
	if n == 1 && len(remove) == 0 {
		return oneCreate(wire.OpCreate, c.path, &one, func(r reply, err error) {
			c.zxid = r.Zxid
			c.one[0], err = s.created(c.path, flags, r, err)
			c.end(c.one[:], err)
		})
	}
	several := one // so that the single case allocates nothing on the heap
	ops := slices.Repeat([]any{&several}, n)
	for _, path := range remove {
		ops = append(ops, &zk.DeleteRequest{Path: s.Abs(path), Version: -1})
	}
	return s.multiRequest(c.path, ops, func(t transaction, err error) {
		var paths []string
		for i, r := range t.responses {
			switch {
			case i < n:
				paths = append(paths, r.String)
			case errors.Is(r.Error, zk.ErrNoNode):
				err = fmt.Errorf("%s: %w", remove[i-n], outcome.ErrNotDeleted)
			}
		}
		c.zxid = t.zxid
		c.end(paths, err)
	})
}

// absNew is Abs for a create. A server appends a number to the path of a sequential node, so "/" must keep its slash:
// without it, the node would be a sibling of the chroot.
func (s *Session) absNew(path string, flags int32) string {
	if flags&zk.FlagSequence != 0 {
		return string(s.Chroot) + path
	}
	return s.Abs(path)
}

// oneCreate returns the request for a single create. Its outcome must be passed to [Session.created].
func oneCreate(code int32, path string, one *zk.CreateRequest, done func(reply, error)) request {
	r := request{Op: code, Path: path, Frame: wire.CreateFrame(code, one), Done: done}
	if node, ok := tally.NodeOf(one.Path, one.Flags); ok {
		r.Ephemerals = node.Bytes()
	}
	return r
}

// created records the outcome of a single create, and returns the path of the node.
func (s *Session) created(path string, flags int32, r reply, err error) (string, error) {
	var created string
	if err == nil {
		created, err = wire.CreateReply(r.Body)
	}
	if node, ok := tally.NodeOf(s.absNew(path, flags), flags); ok {
		s.ephemerals.CreatedOne(node, created, err)
	}
	return s.Rel(created), err
}

// Done is closed when the call ends, with or without an answer.
func (c *Creation) Done() <-chan struct{} { return c.done }

// FinishCreate waits for the answer. zxid is the czxid of the new nodes.
//
// Errors: the same as for Create, and [outcome.ErrNotDeleted] if a node to delete did not exist. With ErrUnknownOutcome
// the nodes may exist; they may still be created until Done is closed and, if the connection was lost, until a barrier
// is answered.
func (s *Session) FinishCreate(ctx context.Context, c *Creation) (paths []string, zxid int64, err error) {
	paths, err = finish(ctx, s, &c.call)
	if err != nil {
		return nil, 0, err
	}
	return paths, c.zxid, nil
}

// Found is [tally.Tally.Found] with the paths of the client.
func (s *Session) Found(prefix string, paths ...string) {
	s.ephemerals.Found(s.Abs(prefix), s.allAbs(paths)...)
}

// Settled is [tally.Tally.Settled] with the paths of the client.
func (s *Session) Settled(prefix string, found ...string) {
	s.ephemerals.Settled(s.Abs(prefix), s.allAbs(found)...)
}

func (s *Session) allAbs(paths []string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = s.Abs(path)
	}
	return all
}
