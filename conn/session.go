package conn

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Session is one ZooKeeper session: alive with proof, then dead for ever. An operation issued on it runs in it or
// fails; nothing that belongs to it ever runs in the session after it. A Session is safe for concurrent use, and its
// paths are those of the client it came from.
//
// It ends at the earliest of: the server says that it has expired; nothing was answered for a whole timeout; the
// client is closed; the server refuses the credentials.
//
// A Session has what must not outlive it: watches, ephemeral nodes, and transactions with them. [Client] has the rest. To
// change a node in this session or not at all, send a [Session.Multi] of one operation.
type Session struct{ inner *session.Session }

// ID returns the id that the server gave to the session. It is the EphemeralOwner in the Stat of the session's ephemeral nodes.
func (s *Session) ID() int64 { return s.inner.ID() }

// Timeout returns the negotiated session timeout, which is what the server grants and not always what was asked for.
func (s *Session) Timeout() time.Duration { return s.inner.Timeout() }

// ValidUntil returns the time up to which the session is proven to be alive: until then no server has removed its
// ephemeral nodes. It moves on while servers answer, and it moves back while a server may be resuming the session with a
// shorter timeout: ask again rather than keep it. See the package documentation for what it rests on and does not cover.
func (s *Session) ValidUntil() time.Time { return s.inner.ValidUntil() }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.inner.Done() }

// Err is nil while the session lives; afterwards a [*zkrecipes.LostError], which all calls of the session return then.
func (s *Session) Err() error { return s.inner.Err() }

// GetW returns a node's data and Stat, with a watch: a channel that is closed once, at the first change of the data or the
// deletion. For a missing node it returns zk.ErrNoNode and no watch.
//
// A watch also fires, without a change, when the connection was lost. So when it has fired, read again, and decide by what
// was read. Nothing needs to be closed. Watches are shared: a session has at most one for each path and kind, for any number of
// callers. Its results are those of go-zookeeper's GetW, with a channel in place of an event: programs that follow a node use
// [Client.Watch].
//
// Errors: what the server said, and there is no watch; [Session.Err] if the session ended; the cause of ctx, with what is in the way.
func (s *Session) GetW(ctx context.Context, path string) (data []byte, stat zk.Stat, changed <-chan struct{}, err error) {
	data, stat, w, err := s.inner.GetW(ctx, path)
	return data, stat, w.Fired(), err
}

// ExistsW reports whether there is a node, and its Stat, with a watch on its creation, its data and its deletion; see
// [Session.GetW]. The watch on a missing node stays on the server until it fires. So use it for paths that will come to exist,
// or for few paths.
//
// Errors: those of GetW, but a missing node is none.
func (s *Session) ExistsW(ctx context.Context, path string) (exists bool, stat zk.Stat, changed <-chan struct{}, err error) {
	exists, stat, w, err := s.inner.ExistsW(ctx, path)
	return exists, stat, w.Fired(), err
}

// ChildrenW returns the names of a node's children, in no order, with a watch on the list and on the node's deletion; see
// [Session.GetW].
//
// Errors: those of GetW.
func (s *Session) ChildrenW(ctx context.Context, path string) (names []string, changed <-chan struct{}, err error) {
	names, w, err := s.inner.ChildrenW(ctx, path)
	return names, w.Fired(), err
}

// Create makes a node and returns its path, which for a sequential node is longer than what was asked for. The mode is
// one of the named ones, such as [Persistent], or the flags of go-zookeeper, without those for a time to live. Without an ACL it takes
// the client's.
//
// Errors: what the server said, such as zk.ErrNodeExists; ErrUnknownOutcome if the reply was lost.
func (s *Session) Create(ctx context.Context, path string, data []byte, mode int32, acl ...zk.ACL) (string, error) {
	return s.inner.Create(ctx, path, data, mode, acl...)
}

// Multi applies the operations all or none, and returns one result for each: see [zkrecipes.OpCreate], [zkrecipes.OpSet],
// [zkrecipes.OpDelete] and [zkrecipes.OpCheck]. It cannot create containers.
//
// Errors: no operation, or one that is malformed or has another [zkrecipes.Root], before any request; the error of the operation
// that was refused, an [*zkrecipes.OpError] with its path, nothing was applied; ErrUnknownOutcome if the reply was lost.
func (s *Session) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return s.inner.Multi(ctx, ops...)
}
