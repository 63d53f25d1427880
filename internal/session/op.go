package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func (s *Session) abs(path string) string {
	switch {
	case s.prefix == "":
		return path
	case path == "/":
		return s.prefix
	default:
		return s.prefix + path
	}
}

func (s *Session) rel(path string) string {
	if path != "" && path == s.prefix {
		return "/"
	}
	return path[min(len(s.prefix), len(path)):]
}

// Root returns the same session without the chroot: paths are those of the server.
func (s *Session) Root() *Session { return &Session{session: s.session} }

// Abs returns the path on the server of what this session calls path.
func (s *Session) Abs(path string) string { return s.abs(path) }

func checkPath(op, path string) error {
	if err := ValidatePath(path); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Create makes a node and returns its path, which for a sequential node is longer than what was asked for. Flags are
// those of go-zookeeper, without those for a time to live; zk.FlagContainer makes a container. Without an ACL it takes
// the client's.
//
// Errors: what the server said, such as zk.ErrNodeExists; ErrUnknownOutcome if the reply was lost.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	if err := checkPath("create", path); err != nil {
		return "", err
	}
	if flags < 0 || flags > zk.FlagContainer {
		return "", &OpError{Op: "create", Path: path, Err: zk.ErrInvalidFlags}
	}
	if len(acl) == 0 {
		acl = s.core.opts.ACL
	}
	op := int32(wire.OpCreate)
	if flags == zk.FlagContainer {
		op = wire.OpCreateContainer // OpCreate with this flag makes a plain node, which is never removed
	}
	created, err := ask(ctx, s, "create", path, writing, nil, func(done func(string, error)) request {
		one := &zk.CreateRequest{Path: s.abs(path), Data: data, Acl: acl, Flags: flags}
		return request{op, path, wire.CreateFrame(op, one), taking(wire.CreateReply, done)}
	})
	return s.rel(created), err
}

// CreateContainer makes a container, a node that the server removes some time after its last child. On a server without
// containers it makes a plain node. If the node exists, of any kind, that is no error.
//
// Some reimplementations drop the connection without an answer. If that happens to the third connection in a row, and each
// time the server then answers that there is no such node, the server is taken for one without containers.
//
// Source: ZooKeeper 3.5.3; older servers answer "unimplemented" and drop the connection.
func (s *Session) CreateContainer(ctx context.Context, path string) error {
	for {
		hangups := s.core.containerHangups.Load()
		flags := int32(zk.FlagContainer)
		if s.core.noContainers.Load() {
			flags = 0
		}
		_, err := s.Create(ctx, path, nil, flags)
		// Whether it was made or not, making it again does no harm.
		again := errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err) && ctx.Err() == nil && s.Err() == nil
		if again {
			_ = Sleep(ctx, RetryPause) // the read looks at ctx
			if made, _, _ := s.Exists(ctx, path); made {
				err = nil // the answer alone was lost
			}
		}
		if flags != 0 {
			s.core.judgeContainers(hangups, err)
		}
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case flags != 0 && errors.Is(err, wire.CodeUnimplemented):
			s.core.opts.Log.Info("zookeeper: the server has no containers, parents stay behind when queues empty")
			s.core.noContainers.Store(true)
		case again && ctx.Err() != nil:
			return &OpError{Op: "create", Path: path, Err: unknownOutcome(causeOf(ctx))}
		case !again:
			return err
		}
	}
}

// judgeContainers counts the connections in a row that ended under createContainer and made no node. Hangups is the count when
// the request was made: the calls that one connection took with it count once.
func (c *core) judgeContainers(hangups int32, err error) {
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
		c.containerHangups.Store(0)
	case errors.Is(err, zk.ErrConnectionClosed) && c.containerHangups.CompareAndSwap(hangups, hangups+1) && hangups+1 == 3:
		c.opts.Log.Warn("zookeeper: three connections in a row ended under createContainer: the server seems to have no " +
			"containers, so parents stay behind when queues empty")
		c.noContainers.Store(true)
	}
}

// Get returns a node's data and Stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	if err := checkPath("get", path); err != nil {
		return nil, zk.Stat{}, err
	}
	d, err := ask(ctx, s, "get", path, readOnly, nil, func(done func(wire.Data, error)) request {
		return s.getRequest(path, false, done)
	})
	return d.Bytes, d.Stat, err
}

func (s *Session) getRequest(path string, watch bool, done func(wire.Data, error)) request {
	return request{wire.OpGetData, path, wire.ReadFrame(wire.OpGetData, s.abs(path), watch), taking(wire.DataReply, done)}
}

// GetW is Get with a watch on the node's data and its deletion. For a missing node it returns zk.ErrNoNode and no watch.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	if err := checkPath("get", path); err != nil {
		return nil, zk.Stat{}, nil, err
	}
	d, w, err := watched(ctx, s, "get", path, watchData, s.getRequest)
	return d.Bytes, d.Stat, w, err
}

// Set replaces a node's data if its version is the given one; -1 is any.
func (s *Session) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	if err := checkPath("set", path); err != nil {
		return zk.Stat{}, err
	}
	return ask(ctx, s, "set", path, writing, nil, func(done func(zk.Stat, error)) request {
		return request{wire.OpSetData, path, wire.SetFrame(s.abs(path), b, version), taking(wire.StatReply, done)}
	})
}

// Delete removes a node if its version is the given one; -1 is any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	if err := checkPath("delete", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "delete", path, writing, nil, func(done func(struct{}, error)) request {
		return request{wire.OpDelete, path, wire.DeleteFrame(s.abs(path), version), func(_ reply, err error) { done(struct{}{}, err) }}
	})
	return err
}

// StartDelete begins to delete a node and does not wait. done is called with the outcome, on the goroutine that reads from the
// connection, and must not wait for anything. Without a connection StartDelete reports false and does nothing.
func (s *Session) StartDelete(path string, version int32, done func(error)) bool {
	return ValidatePath(path) == nil && s.sendNow(s.ctx, nil, []request{{wire.OpDelete, path, wire.DeleteFrame(s.abs(path), version), func(_ reply, err error) {
		if err != nil {
			err = s.failed("delete", path, writing, err)
		}
		done(err)
	}}})
}

type existence struct {
	exists bool
	stat   zk.Stat
}

func (s *Session) existsRequest(path string, watch bool, done func(existence, error)) request {
	return request{wire.OpExists, path, wire.ReadFrame(wire.OpExists, s.abs(path), watch), func(r reply, err error) {
		var e existence
		if err == nil {
			e.stat, err = wire.StatReply(r.Body)
			e.exists = err == nil
		} else if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		done(e, err)
	}}
}

// Exists reports whether there is a node, and its Stat.
func (s *Session) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	if err := checkPath("exists", path); err != nil {
		return false, zk.Stat{}, err
	}
	e, err := ask(ctx, s, "exists", path, readOnly, nil, func(done func(existence, error)) request {
		return s.existsRequest(path, false, done)
	})
	return e.exists, e.stat, err
}

// ExistsW is Exists with a watch, also on a node that does not exist. It stays on the server until it fires, so it is
// for paths that will come to exist, or are few.
func (s *Session) ExistsW(ctx context.Context, path string) (bool, zk.Stat, *Watch, error) {
	if err := checkPath("exists", path); err != nil {
		return false, zk.Stat{}, nil, err
	}
	e, w, err := watched(ctx, s, "exists", path, watchExist, s.existsRequest)
	return e.exists, e.stat, w, err
}

// Sync waits until the server has caught up with the leader: what is read next is at least as new as this call, as far as
// the leader knows. A leader that was replaced, and has not found out, answers as if nothing had happened since; that takes
// up to a tick and a half. Where that matters, use [Session.Barrier].
func (s *Session) Sync(ctx context.Context, path string) error {
	if err := checkPath("sync", path); err != nil {
		return err
	}
	_, err := ask(ctx, s, "sync", path, readOnly, nil, func(done func(string, error)) request { return s.syncRequest(path, done) })
	return err
}

func (s *Session) syncRequest(path string, done func(string, error)) request {
	return request{wire.OpSync, path, wire.SyncFrame(s.abs(path)), taking(wire.CreateReply, done)}
}

// Barrier waits until a quorum has agreed to a transaction that changes nothing: what is read next is at least as new as
// this call, also if the leader is being replaced. It costs as much as a write.
func (s *Session) Barrier(ctx context.Context) error {
	_, err := ask(ctx, s, "barrier", "/", readOnly, nil, s.barrierRequest)
	return err
}

// barrierRequest checks the version of the root. On the way the leader checks the session, and refuses if another server has
// it by now.
func (s *Session) barrierRequest(done func(transaction, error)) request {
	return s.multiRequest("/", []any{&zk.CheckVersionRequest{Path: "/", Version: -1}}, func(t transaction, err error) {
		if errors.Is(err, zk.ErrNoAuth) {
			err = nil // the root may not be read; a quorum has agreed all the same
		}
		done(t, err)
	})
}
