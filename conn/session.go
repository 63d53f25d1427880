package conn

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Session is one ZooKeeper session: alive with proof, then dead for ever. An operation issued on it runs in it or
// fails; nothing that belongs to it ever runs in the session after it. A Session is safe for concurrent use, and its
// paths are those of the client it came from.
//
// It ends at the earliest of: the server says that it has expired; nothing was answered for a whole timeout; the
// client is closed; the server refuses the credentials.
type Session struct{ inner *session.Session }

// ID returns the id that the server gave to the session.
func (s *Session) ID() int64 { return s.inner.ID() }

// Timeout returns the negotiated session timeout, which is what the server grants and not always what was asked for.
func (s *Session) Timeout() time.Duration { return s.inner.Timeout() }

// ValidUntil returns the time up to which the session is proven to be alive: until then no server has removed its
// ephemeral nodes. It moves on while servers answer, and it moves back while a server may be resuming the session with a
// shorter timeout: ask again rather than keep it. See the package documentation for what it rests on and does not cover.
func (s *Session) ValidUntil() time.Time { return s.inner.ValidUntil() }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.inner.Done() }

// Err is nil while the session lives; afterwards a [*zkrecipes.LostError].
func (s *Session) Err() error { return s.inner.Err() }

// GetW returns a node's data and Stat, with a watch on its data and its deletion. For a missing node it returns zk.ErrNoNode and
// no watch.
func (s *Session) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	data, stat, w, err := s.inner.GetW(ctx, path)
	return data, stat, (*Watch)(w), err
}

// ExistsW reports whether there is a node, and its Stat, with a watch, also on a node that does not exist. That watch stays on
// the server until it fires, so use it for paths that will come to exist, or for few paths.
func (s *Session) ExistsW(ctx context.Context, path string) (bool, zk.Stat, *Watch, error) {
	exists, stat, w, err := s.inner.ExistsW(ctx, path)
	return exists, stat, (*Watch)(w), err
}

// ChildrenW returns the names of a node's children, in no order, with a watch on the list.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *Watch, error) {
	names, w, err := s.inner.ChildrenW(ctx, path)
	return names, (*Watch)(w), err
}

// Create makes a node and returns its path, which for a sequential node is longer than what was asked for. Flags are
// those of go-zookeeper, without those for a time to live; zk.FlagContainer makes a container. Without an ACL it takes
// the client's.
//
// Errors: what the server said, such as zk.ErrNodeExists; ErrUnknownOutcome if the reply was lost.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl ...zk.ACL) (string, error) {
	return s.inner.Create(ctx, path, data, flags, acl...)
}

// Set replaces a node's data if its version is the given one; -1 is any.
func (s *Session) Set(ctx context.Context, path string, b []byte, version int32) (zk.Stat, error) {
	return s.inner.Set(ctx, path, b, version)
}

// Delete removes a node if its version is the given one; -1 is any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	return s.inner.Delete(ctx, path, version)
}

// Multi applies the requests (*zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest) all
// or none. A create without an ACL takes the client's. It cannot create containers. If one of the requests is refused, its
// error is returned, and no response.
//
// Errors: the error of the refused request, nothing was applied; ErrUnknownOutcome if the reply was lost.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return s.inner.Multi(ctx, ops...)
}
