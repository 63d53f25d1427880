package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Multi does what conn.Session says.
func (s *Session) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	results, _, err := s.MultiZxid(ctx, ops...)
	return results, err
}

// MultiZxid is Multi that also returns the zxid of the transaction, the czxid of the nodes it created.
func (s *Session) MultiZxid(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, int64, error) {
	requests, err := s.requests(ops)
	if err != nil {
		return nil, 0, err
	}
	first := ops[0].Path
	t, err := ask(ctx, s, "multi", first, writing, nil, func(done func(transaction, error)) request {
		return s.multiRequest(first, requests, done)
	})
	if err != nil {
		return nil, 0, culprit(ops, t.responses, err)
	}
	return results(ops, t.responses), t.zxid, nil
}

// transaction is the answer to a multi.
type transaction struct {
	responses []zk.MultiResponse
	zxid      int64
}

func (s *Session) multiRequest(path string, absolute []any, done func(transaction, error)) request {
	return request{Op: wire.OpMulti, Path: path, Frame: wire.MultiFrame(absolute), Done: func(r reply, err error) {
		t := transaction{zxid: r.Zxid}
		if err == nil {
			if t.responses, err = wire.MultiReply(r.Body, len(absolute)); len(t.responses) != len(absolute) {
				t.responses, err = nil, wire.ErrGarbled
			}
		}
		for i := range t.responses {
			t.responses[i].String = s.Rel(t.responses[i].String)
		}
		done(t, err)
	}}
}

// culprit names the operation that made a multi fail: the first with an error.
func culprit(ops []zkrecipes.Op, responses []zk.MultiResponse, err error) error {
	for i, r := range responses {
		if r.Error != nil {
			return failedOp(ops[i], r.Error)
		}
	}
	return err
}

func failedOp(op zkrecipes.Op, err error) error {
	return &OpError{Op: "multi: " + string(op.Kind), Path: op.Path, Err: err}
}

func results(ops []zkrecipes.Op, responses []zk.MultiResponse) []zkrecipes.OpResult {
	done := make([]zkrecipes.OpResult, len(ops))
	for i, r := range responses {
		done[i].Path = ops[i].Path
		if ops[i].Kind == zkrecipes.KindCreate {
			done[i].Path = r.String
		}
		if r.Stat != nil {
			done[i].Stat = *r.Stat
		}
	}
	return done
}

var kinds = []zkrecipes.OpKind{zkrecipes.KindCreate, zkrecipes.KindSet, zkrecipes.KindDelete, zkrecipes.KindCheck}

// requests returns the operations as requests with the paths of the server.
func (s *Session) requests(ops []zkrecipes.Op) ([]any, error) {
	if len(ops) == 0 {
		return nil, errors.New("multi: no operations")
	}
	requests := make([]any, len(ops))
	for i, op := range ops {
		if !slices.Contains(kinds, op.Kind) {
			return nil, fmt.Errorf("multi: the operation on %q is of kind %q: want one of %q", op.Path, op.Kind, kinds)
		}
		if err := CheckPath("multi: "+string(op.Kind), op.Path); err != nil {
			return nil, err
		}
		r, err := s.request(op)
		if err != nil {
			return nil, failedOp(op, err)
		}
		requests[i] = r
	}
	return requests, nil
}

func (s *Session) request(op zkrecipes.Op) (any, error) {
	if op.Root != nil {
		if err := RequireRoot(op.Root, s.owner.Root(s.Chroot)); err != nil {
			return nil, fmt.Errorf("the operation %w", err)
		}
	}
	path := s.Abs(op.Path)
	switch op.Kind {
	case zkrecipes.KindCreate:
		acl := op.ACL
		if len(acl) == 0 {
			acl = s.opts.ACL
		}
		if op.Flags == zk.FlagContainer {
			return nil, errors.New("a container cannot be created in a transaction")
		}
		if op.Flags < 0 || op.Flags > zk.FlagContainer {
			return nil, zk.ErrInvalidFlags
		}
		return &zk.CreateRequest{Path: path, Data: op.Data, Acl: acl, Flags: op.Flags}, nil
	case zkrecipes.KindSet:
		return &zk.SetDataRequest{Path: path, Data: op.Data, Version: op.Version}, nil
	case zkrecipes.KindDelete:
		return &zk.DeleteRequest{Path: path, Version: op.Version}, nil
	default: // a check
		return &zk.CheckVersionRequest{Path: path, Version: op.Version}, nil
	}
}
