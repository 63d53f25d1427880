package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// call is a request on its way; the library's calls know no context, so each has a goroutine that the client owns, and
// ends at the latest when its session does.
type call[T any] struct {
	op, path string
	done     chan struct{}
	value    T
	err      error
}

// retryPause is for a throttled request, or a connection that is just going: not at once, and not for long.
const retryPause = 10 * time.Millisecond

type mode bool

const (
	readOnly mode = false // may be repeated
	writing  mode = true  // must not be, if it may have been executed
)

// begin waits for the connection and starts f. An error says that nothing was sent.
func begin[T any](ctx context.Context, s *Session, op, path string, f func(*zk.Conn) (T, error)) (*call[T], error) {
	if err := s.awaitUp(ctx); err != nil {
		return nil, &OpError{op, path, err}
	}
	if ctx == s.ctx {
		// A goroutine of the session's, see Go: it waits for nothing but the answer and the end of the session, with
		// which the library's call ends too, see retire. So it needs no second one to wait for it.
		c := &call[T]{op: op, path: path, done: returned}
		c.value, c.err = f(s.zk)
		return c, nil
	}
	c := &call[T]{op: op, path: path, done: make(chan struct{})}
	if !s.core.start(func() {
		c.value, c.err = f(s.zk)
		close(c.done)
	}) {
		return nil, &OpError{op, path, zkrecipes.ErrClosed}
	}
	return c, nil
}

// returned is the done of a call that has come back.
var returned = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// awaitUp waits until the session is connected. Errors: the session's own, or the cause of ctx.
func (s *session) awaitUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	up, over := s.up, s.lost
	s.mu.Unlock()
	if over != nil {
		return over
	}
	select {
	case <-up:
		return nil
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errAgain marks a request that certainly was not executed, and may be sent again.
var errAgain = errors.New("not executed")

// finish waits for the call. Its errors match ErrUnknownOutcome if the request may have been executed, also when ctx
// ended first: then the call goes on, and the caller no longer knows.
func finish[T any](ctx context.Context, s *Session, c *call[T]) (T, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-s.Done():
	}
	select {
	case <-c.done: // an answer counts, whatever else has happened meanwhile
	default:
		var none T
		if err := s.Err(); err != nil {
			return none, &OpError{c.op, c.path, unknownOutcome(err)}
		}
		return none, &OpError{c.op, c.path, unknownOutcome(context.Cause(ctx))}
	}
	if c.err == nil {
		return c.value, nil
	}
	outcome, err := classify(c.err)
	switch outcome {
	case unsent:
		if over := s.Err(); over != nil {
			err = over // which is why it was not sent
		} else {
			err = fmt.Errorf("%w: %w", errAgain, err)
		}
	case unknown:
		err = unknownOutcome(err)
	case expired:
		s.end(lost(zkrecipes.LossExpired, time.Now(), err))
		err = s.Err()
	case refused:
	}
	return c.value, &OpError{c.op, c.path, err}
}

// NotExecuted reports that the request behind err certainly was not executed, for want of a connection or because the
// server sheds load, and may be sent again.
func NotExecuted(err error) bool { return errors.Is(err, errAgain) }

// retryRead says of an error of finish whether a read may be repeated in the same session.
func retryRead(err error) bool {
	if errors.Is(err, zkrecipes.ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, errAgain) || errors.Is(err, zkrecipes.ErrUnknownOutcome)
}

// perform does one request. Reads are repeated until they are answered, writes as long as they were certainly not
// executed; both wait for the connection, within ctx and the session.
func perform[T any](ctx context.Context, s *Session, op, path string, m mode, f func(*zk.Conn) (T, error)) (T, error) {
	for {
		c, err := begin(ctx, s, op, path, f)
		if err != nil {
			var none T
			return none, err
		}
		v, err := finish(ctx, s, c)
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil || s.Err() != nil:
			return v, err
		case errors.Is(err, errAgain):
		case m == readOnly && errors.Is(err, zkrecipes.ErrUnknownOutcome):
		default:
			return v, err
		}
		if err := sleep(ctx, retryPause); err != nil {
			return v, &OpError{op, path, err}
		}
	}
}

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

func (s *Session) rel(path string) string { return path[min(len(s.prefix), len(path)):] }

// Root returns the same session without the chroot: paths are those of the server.
func (s *Session) Root() *Session { return &Session{session: s.session} }

// Abs returns the path on the server of what this session calls path.
func (s *Session) Abs(path string) string { return s.abs(path) }

func checkRequest(op, path string, size int) error {
	if err := ValidatePath(path); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if size+len(path) > maxRequest {
		return &OpError{op, path, fmt.Errorf("%w: %d bytes", ErrTooLarge, size+len(path))}
	}
	return nil
}

// Create makes a node and returns its path, which for a sequential node is longer than what was asked for. Flags are
// those of go-zookeeper, without those for a time to live; zk.FlagContainer makes a container. Without an ACL it takes
// the client's.
//
// Errors: what the server said, such as zk.ErrNodeExists; ErrUnknownOutcome if the reply was lost.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	if err := checkRequest("create", path, len(data)); err != nil {
		return "", err
	}
	if flags < 0 || flags > zk.FlagContainer {
		return "", &OpError{"create", path, zk.ErrInvalidFlags}
	}
	if len(acl) == 0 {
		acl = s.core.opts.acl
	}
	created, err := perform(ctx, s, "create", path, writing, func(z *zk.Conn) (string, error) {
		if flags == zk.FlagContainer {
			// Create with this flag makes a plain node that is never reaped.
			return z.CreateContainer(s.abs(path), data, zk.FlagContainer, acl)
		}
		return z.Create(s.abs(path), data, flags, acl)
	})
	return s.rel(created), err
}

// Creation is a create on its way. It goes on whatever becomes of the caller.
type Creation struct {
	call[[]string]
	sent chan struct{}
	once atomic.Bool
	zxid atomic.Int64
}

// StartCreate begins to create n nodes of one name, in one transaction, and does not wait for the answer. The last part
// of path must be unique to this call, as a name with a GUID is; more than one node must be sequential. An error says
// that nothing was sent.
func (s *Session) StartCreate(ctx context.Context, path string, data []byte, flags int32, n int) (*Creation, error) {
	if err := CheckCreate(path, len(data), n); err != nil {
		return nil, err
	}
	if err := s.awaitUp(ctx); err != nil {
		return nil, &OpError{"create", path, err}
	}
	c := &Creation{call: call[[]string]{op: "create", path: path, done: make(chan struct{})}, sent: make(chan struct{})}
	abs := s.abs(path)
	s.expectCreation(abs, c)
	if !s.core.start(func() {
		defer s.forgetCreation(abs, c)
		c.value, c.err = s.createAll(abs, data, flags, n)
		c.markSent() // also if it never got that far
		close(c.done)
	}) {
		s.forgetCreation(abs, c)
		return nil, &OpError{"create", path, zkrecipes.ErrClosed}
	}
	return c, nil
}

// CheckCreate returns the error of creating n nodes of one name in one transaction that can be told beforehand.
func CheckCreate(path string, size, n int) error {
	if n > 1 {
		size = n * (len(path) + size + 64)
	}
	return checkRequest("create", path, size)
}

func (s *Session) createAll(abs string, data []byte, flags int32, n int) (paths []string, err error) {
	if n == 1 {
		created, err := s.zk.Create(abs, data, flags, s.core.opts.acl)
		return []string{s.rel(created)}, err
	}
	one := &zk.CreateRequest{Path: abs, Data: data, Acl: s.core.opts.acl, Flags: flags}
	responses, err := s.zk.Multi(slices.Repeat([]any{one}, n)...)
	for _, r := range responses {
		if r.Error != nil {
			return nil, r.Error // all came to nothing because of the first that was refused
		}
		paths = append(paths, s.rel(r.String))
	}
	return paths, err
}

// Sent is closed once the request has been handed to the connection: whatever is asked from now on is asked after it.
// It is closed before Done, also if the request was not sent at all.
func (c *Creation) Sent() <-chan struct{} { return c.sent }

// Done is closed once the call has come back, with an answer or without.
func (c *Creation) Done() <-chan struct{} { return c.done }

func (c *Creation) markSent() {
	if c.once.CompareAndSwap(false, true) {
		close(c.sent)
	}
}

// FinishCreate waits for the answer. zxid is that of the transaction that made the nodes, their czxid.
//
// Errors: as for Create. With ErrUnknownOutcome the nodes may exist, or, if ctx ended, come to exist before Done.
func (s *Session) FinishCreate(ctx context.Context, c *Creation) (paths []string, zxid int64, err error) {
	paths, err = finish(ctx, s, &c.call)
	return paths, c.zxid.Load(), err
}

func (s *session) expectCreation(abs string, c *Creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creations[abs] = c
}

func (s *session) forgetCreation(abs string, c *Creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creations[abs] == c {
		delete(s.creations, abs)
	}
}

// creationSent is called by the link as a request passes that creates path.
func (s *session) creationSent(path string) *Creation {
	if path == "" {
		return nil
	}
	s.mu.Lock()
	c := s.creations[path]
	s.mu.Unlock()
	if c != nil {
		c.markSent()
	}
	return c
}

// CreateContainer makes a container, a node that the server removes some time after its last child; on a server that
// has none, a plain one. An existing node of any kind will do.
//
// Source: ZooKeeper 3.5.3; older servers and some reimplementations answer "unimplemented" and drop the connection.
func (s *Session) CreateContainer(ctx context.Context, path string) error {
	for {
		flags := int32(zk.FlagContainer)
		if s.core.noContainers.Load() {
			flags = 0
		}
		_, err := s.Create(ctx, path, nil, flags)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case flags != 0 && errors.Is(err, CodeUnimplemented):
			s.core.opts.log.Info("zookeeper: the server has no containers, parents stay behind when queues empty")
			s.core.noContainers.Store(true)
		case errors.Is(err, zkrecipes.ErrUnknownOutcome) && ctx.Err() == nil && s.Err() == nil:
			// Made or not, making it again does no harm.
			if err := sleep(ctx, retryPause); err != nil {
				return &OpError{"create", path, unknownOutcome(err)}
			}
		default:
			return err
		}
	}
}

type data struct {
	bytes []byte
	stat  zk.Stat
}

// Get returns a node's data and Stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	if err := checkRequest("get", path, 0); err != nil {
		return nil, zk.Stat{}, err
	}
	d, err := perform(ctx, s, "get", path, readOnly, func(z *zk.Conn) (data, error) { return toData(z.Get(s.abs(path))) })
	return d.bytes, d.stat, err
}

func toData(b []byte, stat *zk.Stat, err error) (data, error) {
	if stat == nil {
		stat = &zk.Stat{}
	}
	return data{b, *stat}, err
}

// GetW is Get with a watch on the node's data and its deletion. A missing node gets no watch, and is zk.ErrNoNode.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	if err := checkRequest("get", path, 0); err != nil {
		return nil, zk.Stat{}, nil, err
	}
	d, w, err := watched(ctx, s, "get", path, watchData,
		func(z *zk.Conn) (data, error) {
			b, stat, _, err := z.GetW(s.abs(path))
			return toData(b, stat, err)
		},
		func(z *zk.Conn) (data, error) { return toData(z.Get(s.abs(path))) })
	return d.bytes, d.stat, w, err
}

// Set replaces a node's data if its version is the given one; -1 is any.
func (s *Session) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	if err := checkRequest("set", path, len(b)); err != nil {
		return zk.Stat{}, err
	}
	d, err := perform(ctx, s, "set", path, writing, func(z *zk.Conn) (data, error) {
		stat, err := z.Set(s.abs(path), b, version)
		return toData(nil, stat, err)
	})
	return d.stat, err
}

// Delete removes a node if its version is the given one; -1 is any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	if err := checkRequest("delete", path, 0); err != nil {
		return err
	}
	_, err := perform(ctx, s, "delete", path, writing, func(z *zk.Conn) (struct{}, error) {
		return struct{}{}, z.Delete(s.abs(path), version)
	})
	return err
}

type existence struct {
	exists bool
	stat   zk.Stat
}

func toExistence(exists bool, stat *zk.Stat, err error) (existence, error) {
	d, err := toData(nil, stat, err)
	return existence{exists, d.stat}, err
}

// Exists reports whether there is a node, and its Stat.
func (s *Session) Exists(ctx context.Context, path string) (bool, zk.Stat, error) {
	if err := checkRequest("exists", path, 0); err != nil {
		return false, zk.Stat{}, err
	}
	e, err := perform(ctx, s, "exists", path, readOnly, func(z *zk.Conn) (existence, error) { return toExistence(z.Exists(s.abs(path))) })
	return e.exists, e.stat, err
}

// ExistsW is Exists with a watch, also on a node that does not exist. It stays on the server until it fires, so it is
// for paths that will come to exist, or are few.
func (s *Session) ExistsW(ctx context.Context, path string) (bool, zk.Stat, *Watch, error) {
	if err := checkRequest("exists", path, 0); err != nil {
		return false, zk.Stat{}, nil, err
	}
	e, w, err := watched(ctx, s, "exists", path, watchExist,
		func(z *zk.Conn) (existence, error) {
			exists, stat, _, err := z.ExistsW(s.abs(path))
			return toExistence(exists, stat, err)
		},
		func(z *zk.Conn) (existence, error) { return toExistence(z.Exists(s.abs(path))) })
	return e.exists, e.stat, w, err
}

// Children returns the names of a node's children, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, error) {
	if err := checkRequest("children", path, 0); err != nil {
		return nil, err
	}
	return perform(ctx, s, "children", path, readOnly, s.children(path))
}

func (s *Session) children(path string) func(*zk.Conn) ([]string, error) {
	return func(z *zk.Conn) ([]string, error) {
		names, _, err := z.Children(s.abs(path))
		return names, err
	}
}

// ChildrenW is Children with a watch on the list.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *Watch, error) {
	if err := checkRequest("children", path, 0); err != nil {
		return nil, nil, err
	}
	return watched(ctx, s, "children", path, watchChildren,
		func(z *zk.Conn) ([]string, error) {
			names, _, _, err := z.ChildrenW(s.abs(path))
			return names, err
		}, s.children(path))
}

// Sync waits until the server has caught up with the leader: what is read next is at least as new as this call.
func (s *Session) Sync(ctx context.Context, path string) error {
	if err := checkRequest("sync", path, 0); err != nil {
		return err
	}
	_, err := perform(ctx, s, "sync", path, readOnly, func(z *zk.Conn) (string, error) { return z.Sync(s.abs(path)) })
	return err
}
