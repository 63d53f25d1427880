package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Creation is a create on its way. It goes on whatever becomes of the caller.
type Creation struct {
	call[[]string]
	sent chan struct{}
	once atomic.Bool
	zxid atomic.Int64
}

// StartCreate begins to create n nodes of one name, in one transaction, and does not wait for the answer. The last part
// of path must be unique to this call, as a name with a GUID is; more than one node must be sequential. The nodes at
// leave, if any, are deleted in the same transaction, whatever their version. A container can only be made alone.
//
// Errors: a bad path, too large a request, ErrClosed, the session's own or the cause of ctx; nothing was sent.
func (s *Session) StartCreate(ctx context.Context, path string, data []byte, flags int32, n int, leave ...string) (*Creation, error) {
	if err := CheckCreate(path, len(data), n); err != nil {
		return nil, err
	}
	for _, path := range leave {
		if err := checkRequest("delete", path, 0); err != nil {
			return nil, err
		}
	}
	if err := s.awaitUp(ctx); err != nil {
		return nil, &OpError{"create", path, err}
	}
	c := &Creation{call: call[[]string]{op: "create", path: path, done: make(chan struct{})}, sent: make(chan struct{})}
	abs := s.abs(path)
	s.expectCreation(abs, c)
	if !s.core.start(func() {
		defer s.forgetCreation(abs, c)
		c.value, c.err = s.createAll(abs, data, flags, n, leave)
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

// ErrNotLeft says that a node that was to be deleted together with a creation was not there: nothing was created.
var ErrNotLeft = errors.New("not there to be deleted, and so nothing was created")

func (s *Session) createAll(abs string, data []byte, flags int32, n int, leave []string) (paths []string, err error) {
	if n == 1 && len(leave) == 0 {
		created, err := s.zk.Create(abs, data, flags, s.core.opts.acl)
		return []string{s.rel(created)}, err
	}
	one := &zk.CreateRequest{Path: abs, Data: data, Acl: s.core.opts.acl, Flags: flags}
	requests := slices.Repeat([]any{one}, n)
	for _, path := range leave {
		requests = append(requests, &zk.DeleteRequest{Path: s.abs(path), Version: -1})
	}
	responses, err := s.zk.Multi(requests...)
	for i, r := range responses {
		switch {
		case r.Error != nil && i >= n && errors.Is(r.Error, zk.ErrNoNode):
			return nil, fmt.Errorf("%s: %w", leave[i-n], ErrNotLeft)
		case r.Error != nil:
			return nil, r.Error // all came to nothing because of the first that was refused
		case i < n:
			paths = append(paths, s.rel(r.String))
		}
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
// Errors: as for Create; ErrNotLeft if a node to leave was missing. With ErrUnknownOutcome the nodes may exist, or, if
// ctx ended, come to exist before Done.
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
