package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// At returns the same session with paths below root.
func (s *Session) At(root paths.Chroot) *Session {
	if root == s.Chroot {
		return s
	}
	return &Session{session: s.session, Chroot: root}
}

// Absolute returns the same session without the chroot: paths are those of the server.
func (s *Session) Absolute() *Session { return s.At("") }

// Create implements conn.Session.Create. A create in doubt is not repeated: package outcome lists who settles which
// write.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	if err := CheckCreate(path, flags); err != nil {
		return "", err
	}
	abs := s.absNew(path, flags)
	acl, err := s.opts.ACLOf(abs, acl)
	if err != nil {
		return "", &OpError{Op: "create", Path: path, Err: err}
	}
	op := int32(wire.OpCreate)
	if flags == zk.FlagContainer {
		// OpCreate with this flag creates a plain node, which is never removed.
		op = wire.OpCreateContainer
	}
	return ask(ctx, s, "create", path, once, nil, func(done func(string, error)) request {
		one := &zk.CreateRequest{Path: abs, Data: data, Acl: acl, Flags: flags}
		return oneCreate(op, path, one, func(r reply, err error) { done(s.created(path, flags, r, err)) })
	})
}

// CheckCreate returns the errors of [Session.Create] for input that is invalid in any session.
func CheckCreate(path string, flags int32) error {
	if err := paths.Check("create", path); err != nil {
		return err
	}
	if flags < 0 || flags > zk.FlagContainer {
		return &OpError{Op: "create", Path: path, Err: zk.ErrInvalidFlags}
	}
	return nil
}

// The modes of nodes with a time to live, and the longest time to live in milliseconds. Source: CreateMode and
// EphemeralType of ZooKeeper 3.5.3.
const (
	flagTTL           = 5
	flagTTLSequential = 6
	maxTTL            = 1<<40 - 1
)

// CreateTTL creates a node that the server removes once it has had no children and has not been written for its time to
// live.
func (s *Session) CreateTTL(
	ctx context.Context, path string, data []byte, flags int32, ttl time.Duration, acl ...zk.ACL,
) (string, error) {
	mode, ms, err := CheckTTL(path, flags, ttl)
	if err != nil {
		return "", err
	}
	fail := func(err error) (string, error) { return "", &OpError{Op: "create", Path: path, Err: err} }
	abs := s.absNew(path, flags)
	acl, err = s.opts.ACLOf(abs, acl)
	if err != nil {
		return fail(err)
	}
	made, err := ask(ctx, s, "create", path, once, nil, func(done func(string, error)) request {
		one := &zk.CreateRequest{Path: abs, Data: data, Acl: acl, Flags: mode}
		frame := wire.CreateTTLFrame(one, ms)
		return request{Op: wire.OpCreateTTL, Path: path, Frame: frame, Done: taking(wire.CreateReply, done)}
	})
	if errors.Is(err, zkrecipes.CodeUnimplemented) {
		return fail(fmt.Errorf(
			"%w: a time to live needs ZooKeeper 3.5.3 and zookeeper.extendedTypesEnabled=true on all servers",
			zkrecipes.CodeUnimplemented))
	}
	return s.Rel(made), err
}

// CheckTTL is CheckCreate for a node with a time to live. It returns the mode and the milliseconds for the server.
func CheckTTL(path string, flags int32, ttl time.Duration) (mode int32, ms int64, err error) {
	if err := paths.Check("create", path); err != nil {
		return 0, 0, err
	}
	mode, ok := map[int32]int32{0: flagTTL, zk.FlagSequence: flagTTLSequential}[flags]
	ms = int64((ttl + time.Millisecond - 1) / time.Millisecond)
	switch {
	case !ok:
		err = zk.ErrInvalidFlags
	case ttl <= 0 || ttl > maxTTL*time.Millisecond: // otherwise ms may have overflowed
		err = fmt.Errorf("time to live %v: want more than 0, and at most %v", ttl, maxTTL*time.Millisecond)
	default:
		return mode, ms, nil
	}
	return 0, 0, &OpError{Op: "create", Path: path, Err: err}
}

// CreateContainer creates a container, a node that the server removes some time after its last child. On a server
// without containers it creates a plain node. It is not an error if a node of any kind exists.
//
// Some reimplementations drop the connection without an answer. If that happens to three connections in a row, and each
// time the server then answers that the node does not exist, or the session is over, the server is assumed to have no
// containers.
//
// Source: ZooKeeper 3.5.3; older servers answer "unimplemented" and drop the connection.
func (s *Session) CreateContainer(ctx context.Context, path string) error {
	_, err := s.createContainer(ctx, path)
	return err
}

// createContainer is CreateContainer for a caller that needs to know whether the node may be its own.
func (s *Session) createContainer(ctx context.Context, path string) (mine bool, err error) {
	var repeats Repeats
	for {
		hangups := s.ensemble.containerHangups.Load()
		flags := int32(zk.FlagContainer)
		if s.ensemble.noContainers.Load() {
			flags = 0
		}
		_, err = s.Create(ctx, path, nil, flags)
		// Whether or not it was created, creating it again is harmless.
		again := errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err) && ctx.Err() == nil && s.Err() == nil
		if again {
			_ = repeats.Pause(ctx, err) // the read checks ctx
			if made, _, _ := s.Exists(ctx, path); made {
				err = nil // only the answer was lost
			}
			mine = true
		}
		if flags != 0 && ctx.Err() == nil { // else the read may have had no answer
			s.ensemble.judgeContainers(hangups, err)
		}
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNodeExists):
			return mine, nil
		case flags != 0 && errors.Is(err, zkrecipes.CodeUnimplemented):
			s.opts.Log.Info("zookeeper: the server does not support containers, so parents remain when queues are empty")
			s.ensemble.noContainers.Store(true)
		case again && ctx.Err() != nil:
			return mine, &OpError{Op: "create", Path: path, Err: outcome.InDoubt(CauseOf(ctx))}
		case !again:
			return mine, err
		}
	}
}

// Get returns a node's data and Stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	if err := paths.Check("get", path); err != nil {
		return nil, zk.Stat{}, err
	}
	d, err := ask(ctx, s, "get", path, repeatable, nil, func(done func(wire.Data, error)) request {
		return s.getRequest(path, false, done)
	})
	return d.Bytes, d.Stat, err
}

// ACL returns a node's ACL and Stat.
func (s *Session) ACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	if err := paths.Check("acl", path); err != nil {
		return nil, zk.Stat{}, err
	}
	acl, err := ask(ctx, s, "acl", path, repeatable, nil, func(done func(wire.ACL, error)) request {
		return request{Op: wire.OpGetACL, Path: path, Frame: wire.ACLFrame(s.Abs(path)), Done: taking(wire.ACLReply, done)}
	})
	return acl.List, acl.Stat, err
}

// SetACL replaces a node's ACL if the ACL's version is the given one; -1 matches any.
func (s *Session) SetACL(ctx context.Context, path string, list []zk.ACL, version int32) (zk.Stat, error) {
	if err := CheckSetACL(path, list); err != nil {
		return zk.Stat{}, err
	}
	return ask(ctx, s, "set acl", path, once, nil, func(done func(zk.Stat, error)) request {
		frame := wire.SetACLFrame(s.Abs(path), list, version)
		return request{Op: wire.OpSetACL, Path: path, Frame: frame, Done: taking(wire.StatReply, done)}
	})
}

// CheckSetACL is CheckCreate for [Session.SetACL].
func CheckSetACL(path string, list []zk.ACL) error {
	if err := paths.Check("set acl", path); err != nil {
		return err
	}
	if len(list) == 0 {
		return &OpError{Op: "set acl", Path: path, Err: fmt.Errorf("%w: the list is empty", zk.ErrInvalidACL)}
	}
	return nil
}

func (s *Session) getRequest(path string, watch bool, done func(wire.Data, error)) request {
	return request{
		Op: wire.OpGetData, Path: path, Frame: wire.ReadFrame(wire.OpGetData, s.Abs(path), watch),
		Done: func(r reply, err error) {
			var d wire.Data
			if err == nil {
				d, err = dataOf(r)
			}
			done(d, err)
		},
	}
}

// dataOf decodes the reply to a get.
func dataOf(r reply) (wire.Data, error) {
	d, err := wire.DataReply(r.Body)
	if r.Lent {
		d.Bytes = bytes.Clone(d.Bytes)
	}
	return d, err
}

// GetW implements conn.Session.GetW.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	if err := paths.Check("get", path); err != nil {
		return nil, zk.Stat{}, nil, err
	}
	d, w, err := watched(ctx, s, "get", path, watchData, s.getRequest)
	return d.Bytes, d.Stat, w, err
}

// Set replaces a node's data if its version is the given one; -1 matches any. A set in doubt is not repeated, but
// client.Client.Set resolves it.
func (s *Session) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	if err := paths.Check("set", path); err != nil {
		return zk.Stat{}, err
	}
	if version == beforeAny {
		return s.setExact(ctx, path, b, version)
	}
	return ask(ctx, s, "set", path, once, nil, func(done func(zk.Stat, error)) request {
		return request{
			Op: wire.OpSetData, Path: path, Frame: wire.SetFrame(s.Abs(path), b, version),
			Done: taking(wire.StatReply, done),
		}
	})
}

// Delete deletes a node if its version is the given one; -1 matches any. A delete in doubt is not repeated, but
// client.Client.Delete and ephemeral.Node.Remove resolve it.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	if err := paths.Check("delete", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "delete", path, once, nil, func(done func(struct{}, error)) request {
		return s.deleteRequest(path, version, func(_ reply, err error) {
			s.deleted(path, err)
			done(struct{}{}, err)
		})
	})
	return err
}

// StartDelete begins to delete a node without waiting. done is called with the outcome, on the goroutine that reads
// from the connection, and must not block. Without a connection StartDelete does nothing and reports false.
func (s *Session) StartDelete(path string, version int32, done func(error)) bool {
	return paths.Validate(path) == nil &&
		s.SendNow(s.Context(), nil, []request{s.deleteRequest(path, version, func(_ reply, err error) {
			if s.deleted(path, err); err != nil {
				err = s.failed("delete", path, once, err)
			}
			done(err)
		})})
}

// deleteRequest returns the request for a delete. Its outcome must be passed to [Session.deleted].
func (s *Session) deleteRequest(path string, version int32, done func(reply, error)) request {
	return request{Op: wire.OpDelete, Path: path, Frame: wire.DeleteFrame(s.Abs(path), version), Done: done}
}

// deleted records the outcome of a delete.
func (s *Session) deleted(path string, err error) {
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		s.ephemerals.Gone(s.Abs(path))
	}
}

type existence struct {
	exists bool
	stat   zk.Stat
}

func (s *Session) existsRequest(path string, watch bool, done func(existence, error)) request {
	abs := s.Abs(path)
	return request{
		Op: wire.OpExists, Path: path, Frame: wire.ReadFrame(wire.OpExists, abs, watch),
		Done: func(r reply, err error) {
			var e existence
			if err == nil {
				e.stat, err = wire.StatReply(r.Body)
				e.exists = err == nil
			} else if errors.Is(err, zk.ErrNoNode) {
				s.ephemerals.Gone(abs)
				err = nil
			}
			done(e, err)
		},
	}
}

// Exists reports whether a node exists, and returns its Stat.
func (s *Session) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	if err := paths.Check("exists", path); err != nil {
		return false, zk.Stat{}, err
	}
	e, err := ask(ctx, s, "exists", path, repeatable, nil, func(done func(existence, error)) request {
		return s.existsRequest(path, false, done)
	})
	return e.exists, e.stat, err
}

// ExistsW implements conn.Session.ExistsW.
func (s *Session) ExistsW(ctx context.Context, path string) (bool, zk.Stat, *Watch, error) {
	if err := paths.Check("exists", path); err != nil {
		return false, zk.Stat{}, nil, err
	}
	e, w, err := watched(ctx, s, "exists", path, watchExist, s.existsRequest)
	return e.exists, e.stat, w, err
}

// Sync implements conn.Client.Sync within one session. Where the knowledge of one leader, perhaps a replaced one, is
// not enough, use [Session.Barrier].
func (s *Session) Sync(ctx context.Context, path string) error {
	if err := paths.Check("sync", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "sync", path, repeatable, nil, func(done func(struct{}, error)) request {
		return lifetime.SyncRequest(s.Abs(path), path, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// Barrier waits until a quorum has agreed to a transaction that changes nothing: what is read next is at least as
// recent as this call, even while the leader is being replaced. It costs as much as a write.
func (s *Session) Barrier(ctx context.Context) error {
	_, err := ask(ctx, s, "barrier", "/", repeatable, nil, func(done func(struct{}, error)) request {
		return lifetime.BarrierRequest(func(err error) { done(struct{}{}, err) })
	})
	return err
}
