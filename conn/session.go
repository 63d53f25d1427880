package conn

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Session is a single ZooKeeper session, which ends once and for all. An operation issued on it either runs in that
// session or fails, and nothing that belongs to it ever runs in a later session. A Session is safe for concurrent use.
// Its paths are relative to the root of the client it came from.
//
// A session ends when the server reports that it has expired, when no server answers for a whole session timeout, when
// the client is closed, when all servers refuse the credentials, or when it is resumed with a timeout too long to
// prove, whichever comes first.
//
// Session has the operations whose effect must not outlive it: watches, ephemeral nodes, and transactions that include
// them. [Client] has the others. To change a node either in this session or not at all, send a [Session.Multi] of one
// operation.
type Session struct{ inner *session.Session }

// ID returns the session's ID, assigned by the server. It is the EphemeralOwner in the Stat of the session's ephemeral
// nodes.
func (s *Session) ID() int64 { return s.inner.ID() }

// Timeout returns the session timeout that the server granted, which may differ from the one requested.
func (s *Session) Timeout() time.Duration { return s.inner.Timeout() }

// ValidUntil returns the time until which the session is proven to be alive; before then, no server removes the
// session's ephemeral nodes. It advances as servers answer. It moves back while a server may be resuming the session
// with a shorter timeout, and stays back if one has granted another timeout: from then on a shorter timeout is used
// instead, and a longer one increases the margin. Call ValidUntil again rather than keeping the result. The package
// documentation describes what the proof depends on and what it does not cover.
func (s *Session) ValidUntil() time.Time { return s.inner.ValidUntil() }

// Done returns a channel that is closed when the session ends.
func (s *Session) Done() <-chan struct{} { return s.inner.Done() }

// Err returns nil while the session is alive, and a [*zkrecipes.LostError] afterwards. All calls on the session then
// return the same error.
func (s *Session) Err() error { return s.inner.Err() }

// GetW returns a node's data and Stat, and sets a watch: a channel that is closed once, when the data first changes
// or the node is deleted. For a missing node it returns zk.ErrNoNode and no watch.
//
// A watch also fires, without a change, when the client has reconnected, when the session ends, and when the client
// removes its watches on the node, for example because a cache is closed. When it fires, read again and decide based on
// what you read; if the session has ended, read in the next one, from [Client.Session]. You don't have to close
// anything. Watches are shared, so a session has at most one for each path and kind, for any number of callers, and it
// may also have fired for a change that the read already shows. If ctx is done before the answer, the watch that the
// server then sets is removed. The results are those of go-zookeeper's GetW, with a channel in place of an event.
//
// A watch doesn't fire at a change whose event is lost. For example, servers since 3.8.4 and 3.9.2 withhold the event
// if the client may not read the node at that moment. Therefore, read again from time to time, or follow the node with
// [Client.Watch], which does so.
//
// Errors: the server's error, or [zkrecipes.ErrTooLarge] if the reply is too large, neither of which leaves a watch;
// [Session.Err] if the session has ended; or context.Cause(ctx), with what the call was waiting for.
func (s *Session) GetW(
	ctx context.Context, path string,
) (data []byte, stat zk.Stat, changed <-chan struct{}, err error) {
	data, stat, w, err := s.inner.GetW(s.inner.Bounded(ctx), path)
	return data, stat, w.Fired(), err
}

// ExistsW reports whether a node exists, and returns its Stat, with a watch on its creation, its data and its deletion;
// see [Session.GetW]. Because a watch on a missing node stays on the server until it fires, use ExistsW only for paths
// that will eventually exist, or for a small number of paths.
//
// Errors: those of GetW, except that a missing node is not an error.
func (s *Session) ExistsW(
	ctx context.Context, path string,
) (exists bool, stat zk.Stat, changed <-chan struct{}, err error) {
	exists, stat, w, err := s.inner.ExistsW(s.inner.Bounded(ctx), path)
	return exists, stat, w.Fired(), err
}

// ChildrenW returns the names of a node's children in no particular order, with a watch on the list and on the
// node's deletion; see [Session.GetW]. As with [Client.Children], the names share one block of memory.
//
// Errors: those of GetW.
func (s *Session) ChildrenW(ctx context.Context, path string) (names []string, changed <-chan struct{}, err error) {
	names, w, err := s.inner.ChildrenW(s.inner.Bounded(ctx), path)
	return names, w.Fired(), err
}

// Create creates a node and returns its path, which for a sequential node is longer than the path requested. The mode
// is one of the constants, such as [Persistent], or the flags of go-zookeeper, except those for a time to live; see
// [Client.CreateTTL]. Without an ACL, the node gets the client's.
//
// Errors: the server's error, such as zk.ErrNodeExists; ErrUnknownOutcome if the reply was lost.
func (s *Session) Create(ctx context.Context, path string, data []byte, mode int32, acl ...zk.ACL) (string, error) {
	return s.inner.Create(s.inner.Bounded(ctx), path, data, mode, acl...)
}

// Multi applies either all of the operations or none of them, and returns one result for each; see
// [zkrecipes.OpCreate], [zkrecipes.OpSet], [zkrecipes.OpDelete] and [zkrecipes.OpCheck]. It cannot create containers.
//
// Errors: no operation, or one that is malformed or has a different [zkrecipes.Root], before sending any request; the
// error for the operation that was refused, an [*zkrecipes.OpError] with its path, in which case nothing was applied;
// ErrUnknownOutcome if the reply was lost.
func (s *Session) Multi(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return s.inner.Multi(s.inner.Bounded(ctx), ops...)
}
