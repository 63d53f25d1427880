package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// At returns the same session with the paths below root.
func (s *Session) At(root Chroot) *Session {
	if root == s.Chroot {
		return s
	}
	return &Session{session: s.session, Chroot: root}
}

// Absolute returns the same session without the chroot: paths are those of the server.
func (s *Session) Absolute() *Session { return s.At("") }

// CheckPath returns the error of an operation on a path that is not valid.
func CheckPath(op, path string) error {
	if err := ValidatePath(path); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Create does what conn.Session says.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	if err := CheckPath("create", path); err != nil {
		return "", err
	}
	if flags < 0 || flags > zk.FlagContainer {
		return "", &OpError{Op: "create", Path: path, Err: zk.ErrInvalidFlags}
	}
	acl, err := s.opts.ACLOf(s.Abs(path), acl)
	if err != nil {
		return "", &OpError{Op: "create", Path: path, Err: err}
	}
	op := int32(wire.OpCreate)
	if flags == zk.FlagContainer {
		op = wire.OpCreateContainer // OpCreate with this flag makes a plain node, which is never removed
	}
	return ask(ctx, s, "create", path, writing, nil, func(done func(string, error)) request {
		one := &zk.CreateRequest{Path: s.Abs(path), Data: data, Acl: acl, Flags: flags}
		return s.oneCreate(op, "create", path, one, func(created string, _ int64, err error) { done(created, err) })
	})
}

// The modes of nodes with a time to live, and the longest, in milliseconds. Source: CreateMode and EphemeralType of
// ZooKeeper 3.5.3.
const (
	flagTTL           = 5
	flagTTLSequential = 6
	maxTTL            = 1<<40 - 1
)

// CreateTTL makes a node that the server removes when it has had no children, and was not written, for the time to
// live.
func (s *Session) CreateTTL(
	ctx context.Context, path string, data []byte, flags int32, ttl time.Duration, acl ...zk.ACL,
) (string, error) {
	if err := CheckPath("create", path); err != nil {
		return "", err
	}
	fail := func(err error) (string, error) { return "", &OpError{Op: "create", Path: path, Err: err} }
	mode, ok := map[int32]int32{0: flagTTL, zk.FlagSequence: flagTTLSequential}[flags]
	if !ok {
		return fail(zk.ErrInvalidFlags)
	}
	ms := int64((ttl + time.Millisecond - 1) / time.Millisecond)
	if ttl <= 0 || ms > maxTTL {
		return fail(fmt.Errorf("time to live %v: want more than 0, and at most %v", ttl, maxTTL*time.Millisecond))
	}
	acl, err := s.opts.ACLOf(s.Abs(path), acl)
	if err != nil {
		return fail(err)
	}
	made, err := ask(ctx, s, "create", path, writing, nil, func(done func(string, error)) request {
		one := &zk.CreateRequest{Path: s.Abs(path), Data: data, Acl: acl, Flags: mode}
		frame := wire.CreateTTLFrame(one, ms)
		return request{Op: wire.OpCreateTTL, Path: path, Frame: frame, Done: taking(wire.CreateReply, done)}
	})
	if errors.Is(err, zkrecipes.CodeUnimplemented) {
		return fail(fmt.Errorf("%w: a time to live needs ZooKeeper 3.5.3 and zookeeper.extendedTypesEnabled=true on all servers",
			zkrecipes.CodeUnimplemented))
	}
	return s.Rel(made), err
}

// CreateContainer makes a container, a node that the server removes some time after its last child. On a server without
// containers it makes a plain node. If the node exists, of any kind, that is no error.
//
// Some reimplementations drop the connection without an answer. If that happens to the third connection in a row, and each
// time the server then answers that there is no such node, the server is taken for one without containers.
//
// Source: ZooKeeper 3.5.3; older servers answer "unimplemented" and drop the connection.
func (s *Session) CreateContainer(ctx context.Context, path string) error {
	_, err := s.createContainer(ctx, path)
	return err
}

// createContainer is CreateContainer for a caller that must know whether the node may be its own.
func (s *Session) createContainer(ctx context.Context, path string) (mine bool, err error) {
	for {
		hangups := s.ensemble.containerHangups.Load()
		flags := int32(zk.FlagContainer)
		if s.ensemble.noContainers.Load() {
			flags = 0
		}
		_, err = s.Create(ctx, path, nil, flags)
		// Whether it was made or not, making it again does no harm.
		again := errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err) && ctx.Err() == nil && s.Err() == nil
		if again {
			_ = Sleep(ctx, RetryPause) // the read looks at ctx
			if made, _, _ := s.Exists(ctx, path); made {
				err = nil // the answer alone was lost
			}
			mine = true
		}
		if flags != 0 {
			s.ensemble.judgeContainers(hangups, err)
		}
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNodeExists):
			return mine, nil
		case flags != 0 && errors.Is(err, zkrecipes.CodeUnimplemented):
			s.opts.Log.Info("zookeeper: the server has no containers, parents stay behind when queues empty")
			s.ensemble.noContainers.Store(true)
		case again && ctx.Err() != nil:
			return mine, &OpError{Op: "create", Path: path, Err: unknownOutcome(CauseOf(ctx))}
		case !again:
			return mine, err
		}
	}
}

// Get returns a node's data and Stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	if err := CheckPath("get", path); err != nil {
		return nil, zk.Stat{}, err
	}
	d, err := ask(ctx, s, "get", path, reading, nil, func(done func(wire.Data, error)) request {
		return s.getRequest(path, false, done)
	})
	return d.Bytes, d.Stat, err
}

// ACL returns the access list of a node, and its Stat.
func (s *Session) ACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	if err := CheckPath("acl", path); err != nil {
		return nil, zk.Stat{}, err
	}
	acl, err := ask(ctx, s, "acl", path, reading, nil, func(done func(wire.ACL, error)) request {
		return request{Op: wire.OpGetACL, Path: path, Frame: wire.ACLFrame(s.Abs(path)), Done: taking(wire.ACLReply, done)}
	})
	return acl.List, acl.Stat, err
}

// SetACL replaces the access list of a node if that has the version; -1 is any.
func (s *Session) SetACL(ctx context.Context, path string, list []zk.ACL, version int32) (zk.Stat, error) {
	if err := CheckPath("set acl", path); err != nil {
		return zk.Stat{}, err
	}
	if len(list) == 0 {
		return zk.Stat{}, &OpError{Op: "set acl", Path: path, Err: fmt.Errorf("%w: the list is empty", zk.ErrInvalidACL)}
	}
	return ask(ctx, s, "set acl", path, writing, nil, func(done func(zk.Stat, error)) request {
		frame := wire.SetACLFrame(s.Abs(path), list, version)
		return request{Op: wire.OpSetACL, Path: path, Frame: frame, Done: taking(wire.StatReply, done)}
	})
}

func (s *Session) getRequest(path string, watch bool, done func(wire.Data, error)) request {
	return request{Op: wire.OpGetData, Path: path, Frame: wire.ReadFrame(wire.OpGetData, s.Abs(path), watch), Done: taking(wire.DataReply, done)}
}

// GetW does what conn.Session says.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	if err := CheckPath("get", path); err != nil {
		return nil, zk.Stat{}, nil, err
	}
	d, w, err := watched(ctx, s, "get", path, watchData, s.getRequest)
	return d.Bytes, d.Stat, w, err
}

// Set replaces a node's data if its version is the given one; -1 is any.
func (s *Session) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	if err := CheckPath("set", path); err != nil {
		return zk.Stat{}, err
	}
	if version == beforeAny {
		return s.setExact(ctx, path, b, version)
	}
	return ask(ctx, s, "set", path, writing, nil, func(done func(zk.Stat, error)) request {
		return request{Op: wire.OpSetData, Path: path, Frame: wire.SetFrame(s.Abs(path), b, version), Done: taking(wire.StatReply, done)}
	})
}

// Delete removes a node if its version is the given one; -1 is any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	if err := CheckPath("delete", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "delete", path, writing, nil, func(done func(struct{}, error)) request {
		return s.deleteRequest(path, version, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// StartDelete begins to delete a node and does not wait. done is called with the outcome, on the goroutine that reads from the
// connection, and must not wait for anything. Without a connection StartDelete reports false and does nothing.
func (s *Session) StartDelete(path string, version int32, done func(error)) bool {
	return ValidatePath(path) == nil && s.SendNow(s.Context(), nil, []request{s.deleteRequest(path, version, func(err error) {
		if err != nil {
			err = s.failed("delete", path, writing, err)
		}
		done(err)
	})})
}

func (s *Session) deleteRequest(path string, version int32, done func(error)) request {
	abs := s.Abs(path)
	return request{Op: wire.OpDelete, Path: path, Frame: wire.DeleteFrame(abs, version), Done: func(_ reply, err error) {
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			s.ephemerals.gone(abs)
		}
		done(err)
	}}
}

type existence struct {
	exists bool
	stat   zk.Stat
}

func (s *Session) existsRequest(path string, watch bool, done func(existence, error)) request {
	abs := s.Abs(path)
	return request{Op: wire.OpExists, Path: path, Frame: wire.ReadFrame(wire.OpExists, abs, watch), Done: func(r reply, err error) {
		var e existence
		if err == nil {
			e.stat, err = wire.StatReply(r.Body)
			e.exists = err == nil
		} else if errors.Is(err, zk.ErrNoNode) {
			s.ephemerals.gone(abs)
			err = nil
		}
		done(e, err)
	}}
}

// Exists reports whether there is a node, and its Stat.
func (s *Session) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	if err := CheckPath("exists", path); err != nil {
		return false, zk.Stat{}, err
	}
	e, err := ask(ctx, s, "exists", path, reading, nil, func(done func(existence, error)) request {
		return s.existsRequest(path, false, done)
	})
	return e.exists, e.stat, err
}

// ExistsW does what conn.Session says.
func (s *Session) ExistsW(ctx context.Context, path string) (bool, zk.Stat, *Watch, error) {
	if err := CheckPath("exists", path); err != nil {
		return false, zk.Stat{}, nil, err
	}
	e, w, err := watched(ctx, s, "exists", path, watchExist, s.existsRequest)
	return e.exists, e.stat, w, err
}

// Sync does what conn.Client says, in one session. Where it is not enough that the leader knows, use [Session.Barrier].
func (s *Session) Sync(ctx context.Context, path string) error {
	if err := CheckPath("sync", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "sync", path, reading, nil, func(done func(struct{}, error)) request {
		return lifetime.SyncRequest(s.Abs(path), path, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// Barrier waits until a quorum has agreed to a transaction that changes nothing: what is read next is at least as new as
// this call, also if the leader is being replaced. It costs as much as a write.
func (s *Session) Barrier(ctx context.Context) error {
	_, err := ask(ctx, s, "barrier", "/", reading, nil, func(done func(struct{}, error)) request {
		return lifetime.BarrierRequest(func(err error) { done(struct{}{}, err) })
	})
	return err
}
