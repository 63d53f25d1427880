package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/tally"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Multi implements conn.Session.Multi.
func (s *Session) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	results, _, err := s.MultiZxid(ctx, ops...)
	return results, err
}

// MultiZxid is like Multi, but also returns the zxid of the transaction, which is the czxid of the nodes it created.
func (s *Session) MultiZxid(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, int64, error) {
	requests, of, err := s.requests(ops)
	if err != nil {
		return nil, 0, err
	}
	first := ops[0].Path
	t, err := ask(ctx, s, "multi", first, once, nil, func(done func(transaction, error)) request {
		return s.multiRequest(first, requests, done)
	})
	if err != nil {
		return nil, 0, culprit(ops, of, t.responses, err)
	}
	return results(ops, of, t.responses), t.zxid, nil
}

// StartDeleteAll is StartDelete for several nodes, in one transaction. If one of them is missing, none is deleted.
func (s *Session) StartDeleteAll(paths []string, done func(error)) bool {
	requests := make([]any, len(paths))
	for i, path := range paths {
		requests[i] = &zk.DeleteRequest{Path: s.Abs(path), Version: anyVersion}
	}
	return s.SendNow(s.Context(), nil, []request{s.multiRequest(paths[0], requests, func(_ transaction, err error) {
		if err != nil {
			err = s.failed("multi", paths[0], once, err)
		}
		done(err)
	})})
}

// transaction is the answer to a multi.
type transaction struct {
	responses []zk.MultiResponse
	zxid      int64
}

func (s *Session) multiRequest(path string, absolute []any, done func(transaction, error)) request {
	bytes := tally.BytesOf(absolute)
	return request{
		Op: wire.OpMulti, Path: path, Frame: wire.MultiFrame(absolute), Ephemerals: bytes,
		Done: func(r reply, err error) {
			t := transaction{zxid: r.Zxid}
			if err == nil {
				if t.responses, err = wire.MultiReply(r.Body, len(absolute)); len(t.responses) != len(absolute) {
					t.responses, err = nil, wire.ErrGarbled
				}
			}
			s.ephemerals.Answered(absolute, bytes, t.responses, err)
			for i := range t.responses {
				t.responses[i].String = s.Rel(t.responses[i].String)
			}
			done(t, err)
		},
	}
}

// culprit names the operation that made a multi fail: the first one with an error. of maps each response to its
// operation.
func culprit(ops []zkrecipes.Op, of []int, responses []zk.MultiResponse, err error) error {
	at := slices.IndexFunc(responses, func(r zk.MultiResponse) bool { return r.Error != nil })
	if at < 0 {
		return err
	}
	return failedOp(ops[of[at]], responses[at].Error)
}

func failedOp(op zkrecipes.Op, err error) error {
	return &OpError{Op: "multi: " + string(op.Kind), Path: op.Path, Err: err}
}

func results(ops []zkrecipes.Op, of []int, responses []zk.MultiResponse) []zkrecipes.OpResult {
	done := make([]zkrecipes.OpResult, len(ops))
	for i, r := range responses {
		op, result := ops[of[i]], &done[of[i]]
		result.Path = op.Path
		if op.Kind == zkrecipes.KindCreate {
			result.Path = r.String
		}
		if op.Kind == zkrecipes.KindSet && r.Stat != nil {
			result.Stat = *r.Stat // that of the last request
		}
	}
	return done
}

// RequireRoot returns an error if of, the root of whatever guards or versions a write, is not the root of the write. A
// different connection has a different session, which cannot guard the write. Under a different root, the same path
// names a different node. The caller puts a subject before the error.
func RequireRoot(of, write zkrecipes.Root) error {
	if of == write {
		return nil
	}
	return fmt.Errorf("belongs to a client of %s, and the write to one of %s: want the same client and root for both",
		of, write)
}

var kinds = []zkrecipes.OpKind{zkrecipes.KindCreate, zkrecipes.KindSet, zkrecipes.KindDelete, zkrecipes.KindCheck}

// CheckOps returns the errors of [Session.Multi] for operations that are invalid in any session.
func CheckOps(ops []zkrecipes.Op) error {
	if len(ops) == 0 {
		return errors.New("multi: no operations")
	}
	for _, op := range ops {
		if !slices.Contains(kinds, op.Kind) {
			return fmt.Errorf("multi: the operation on %q is of kind %q: want one of %q", op.Path, op.Kind, kinds)
		}
		if err := paths.Check("multi: "+string(op.Kind), op.Path); err != nil {
			return err
		}
		if err := checkOp(op); err != nil {
			return failedOp(op, err)
		}
	}
	return nil
}

func checkOp(op zkrecipes.Op) error {
	switch {
	case op.Kind == zkrecipes.KindCreate && op.Flags == zk.FlagContainer:
		return errors.New("a container cannot be created in a transaction")
	case op.Kind == zkrecipes.KindCreate && (op.Flags < 0 || op.Flags > zk.FlagContainer):
		return zk.ErrInvalidFlags
	case op.Kind == zkrecipes.KindCheck && op.Exact && op.Version == anyVersion:
		return errors.New(
			"the data version is -1, which servers take for any version: write the node once to give it another",
		)
	default:
		return nil
	}
}

// requests returns the operations as requests with the server's paths, and maps each request to its operation.
func (s *Session) requests(ops []zkrecipes.Op) (requests []any, of []int, err error) {
	if err := CheckOps(ops); err != nil {
		return nil, nil, err
	}
	requests, of = make([]any, 0, len(ops)), make([]int, 0, len(ops))
	for i, op := range ops {
		r, err := s.request(op)
		if err != nil {
			return nil, nil, failedOp(op, err)
		}
		for _, one := range aroundAny(r, op.Exact) {
			requests, of = append(requests, one), append(of, i)
		}
	}
	return requests, of, nil
}

func (s *Session) request(op zkrecipes.Op) (any, error) {
	if op.Root != (zkrecipes.Root{}) {
		if err := RequireRoot(op.Root, s.client.Root(s.Chroot)); err != nil {
			return nil, fmt.Errorf("the operation %w", err)
		}
	}
	path := s.Abs(op.Path)
	switch op.Kind {
	case zkrecipes.KindCreate:
		path = s.absNew(op.Path, op.Flags)
		acl, err := s.opts.ACLOf(path, op.ACL)
		if err != nil {
			return nil, err
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

// Data versions wrap, and servers take -1 in a request to mean any version. A write that replaces version beforeAny
// would leave the node with version -1.
const (
	anyVersion = -1
	beforeAny  = -2
)

// aroundAny returns the requests that implement one request of a transaction. A set over version -2 writes twice, so
// that no node is left with -1. Other clients do leave such nodes. If -1 is the version that was read, the write is
// sent for any version, and the request after it in the transaction passes only if the version was -1, because then it
// is now 0. If another client wrote first, the whole transaction fails.
//
// Source: ZooKeeper's PrepRequestProcessor.checkAndIncVersion, which never leaves -1 from 3.10 on (ZOOKEEPER-4743).
func aroundAny(request any, exact bool) []any {
	switch r := request.(type) {
	case *zk.SetDataRequest:
		switch {
		case r.Version == beforeAny:
			return []any{r, &zk.SetDataRequest{Path: r.Path, Data: r.Data, Version: anyVersion}}
		case r.Version == anyVersion && exact:
			return []any{r, &zk.CheckVersionRequest{Path: r.Path, Version: 0}}
		}
	case *zk.DeleteRequest:
		if r.Version == anyVersion && exact {
			return []any{&zk.SetDataRequest{Path: r.Path, Version: anyVersion}, &zk.DeleteRequest{Path: r.Path, Version: 0}}
		}
	}
	return []any{request}
}

// SetRead replaces a node's data if the node has the version that was read, even if that is -1.
func (s *Session) SetRead(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	if version != anyVersion {
		return s.Set(ctx, path, b, version)
	}
	return s.setExact(ctx, path, b, version)
}

// setExact is SetRead in a transaction.
func (s *Session) setExact(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	results, err := s.Multi(ctx, zkrecipes.Op{Kind: zkrecipes.KindSet, Path: path, Data: b, Version: version, Exact: true})
	if err != nil {
		return zk.Stat{}, err
	}
	return results[0].Stat, nil
}

// DeleteRead deletes a node if it has the version that was read, even if that is -1.
func (s *Session) DeleteRead(ctx context.Context, path string, version int32) error {
	if version != anyVersion {
		return s.Delete(ctx, path, version)
	}
	_, err := s.Multi(ctx, zkrecipes.Op{Kind: zkrecipes.KindDelete, Path: path, Version: version, Exact: true})
	return err
}
