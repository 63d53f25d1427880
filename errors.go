package zkrecipes

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The errors that callers branch on. Match them with [errors.Is].
var (
	// ErrLocked reports that another contender holds what a Try call tried to acquire. The error is a [*BusyError].
	ErrLocked = errors.New("held by another contender")
	// ErrLost reports that a hold or a session ended other than by its owner ending it. The error is a [*LostError].
	ErrLost = errors.New("lost")
	// ErrReleased reports that the hold was released by its owner.
	ErrReleased = errors.New("released")
	// ErrFenced reports that nothing was written, because the hold that guards the write was no longer held.
	ErrFenced = errors.New("fenced: no longer held, nothing was written")
	// ErrUpgrade reports that a write lock was requested inside a read lock. Such a request could never be granted.
	ErrUpgrade = errors.New("a read lock cannot be upgraded: release it first")
	// ErrDeadlock reports that a call would wait for a hold that its own context is derived from: a non-reentrant lock
	// inside a lock on the same path, a term inside a term, or one path through two clients.
	ErrDeadlock = errors.New("would wait for itself")
	// ErrNoLeader reports that an election currently has no leader.
	ErrNoLeader = errors.New("no leader")
	// ErrUnknownOutcome reports that a write may or may not have been applied. Read before writing again.
	ErrUnknownOutcome = errors.New("outcome unknown: the write may have been applied")
	// ErrTooLarge reports that a request or its reply is too large. A request above conn.WithMaxRequestSize was not
	// sent, and a reply above conn.WithMaxReplySize was not read. Because servers hang up on requests above their
	// jute.maxbuffer, a request of 64 KiB or more also counts as too large if two connections in a row ended while it was
	// in flight. If a write may have been applied, the error also matches ErrUnknownOutcome.
	ErrTooLarge = errors.New("too large")
	// ErrSessionFull reports that a create was not sent, because the client's session has so many ephemeral nodes that
	// the servers might not survive its end. Spread them over several clients, or shorten their paths; see
	// conn.WithMaxRequestSize.
	ErrSessionFull = errors.New("session full")
	// ErrSequenceExhausted reports that the sequence counter of the queue's parent has run out, so the order of the
	// queue, and with it exclusion, can no longer be trusted. To reset the counter to zero, delete the parent once
	// nobody uses it.
	ErrSequenceExhausted = errors.New("sequence numbers exhausted: delete the parent node when it has no users")
	// ErrForeignContender reports that the queue's parent has a child that looks like a contender of another library or
	// recipe. The two would not wait for each other, so no call that lists the queue is granted while that child
	// exists.
	ErrForeignContender = errors.New("looks like a contender of another library or recipe")
	// ErrUnsupportedServer reports that the server differs from ZooKeeper in a way that recipes depend on. See
	// docs/compatibility.md.
	ErrUnsupportedServer = errors.New("the server does not behave like ZooKeeper")
	// ErrTaken reports that another session's node occupies the path. The error is a [*TakenError].
	ErrTaken = errors.New("taken by another session")
	// ErrClosed reports that the client, or whatever the call was made on, such as a cache, was closed.
	ErrClosed = errors.New("client closed")
	// ErrAuthFailed reports that all servers refused the credentials given with conn.WithAuth or conn.WithSASL. The
	// session has ended, and its holds with it; see [LossRefused]. The client keeps retrying, with pauses in between.
	ErrAuthFailed = errors.New("credentials refused")
)

// LossReason is why a hold or a session was lost.
type LossReason int

// The reasons.
const (
	// LossExpired: the server reported that the session is over.
	LossExpired LossReason = iota + 1
	// LossDeadline: the time up to which the session was proven alive has passed. For a session, this means that no
	// server answered for a whole session timeout, or that a server resumed it with a timeout too long to prove.
	LossDeadline
	// LossNodeDeleted: the contender was deleted, by hand or together with its session. A server that ends a connected
	// client's session may report the deletion first.
	LossNodeDeleted
	// LossClosed: the client was closed.
	LossClosed
	// LossSuspended: the connection was lost, and the recipe was configured to treat that as a loss.
	LossSuspended
	// LossRefused: all servers refused the client's credentials. The loss matches [ErrAuthFailed].
	LossRefused
)

// String returns the reason as one lower-case word.
func (r LossReason) String() string {
	switch r {
	case LossExpired:
		return "expired"
	case LossDeadline:
		return "deadline"
	case LossNodeDeleted:
		return "node-deleted"
	case LossClosed:
		return "closed"
	case LossSuspended:
		return "suspended"
	case LossRefused:
		return "refused"
	default:
		return fmt.Sprintf("LossReason(%d)", int(r))
	}
}

// LostError reports when and why a hold, or a whole session, was lost. It matches [ErrLost].
type LostError struct {
	Reason LossReason
	// Path of the contender; empty if the session itself was lost.
	Path string
	// At is when the loss took effect. For LossDeadline this is the deadline, even if the loss was noticed later.
	At time.Time
	// Err is the underlying cause, if there is one beyond Reason.
	Err error
}

// Error names what was lost and why.
func (e *LostError) Error() string {
	what := "session"
	if e.Path != "" {
		what = e.Path
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: lost (%s): %v", what, e.Reason, e.Err)
	}
	return fmt.Sprintf("%s: lost (%s)", what, e.Reason)
}

// Is reports that every LostError matches [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

// OpError names the operation and the path that failed.
type OpError struct {
	// Op is the operation, such as "get" or "multi: set".
	Op string
	// Path without the chroot. If the chroot, or a node above it, could not be created, this is the path on the server.
	Path string
	// Err is the server's error, such as zk.ErrNoNode.
	Err error
}

// Error names the operation and the path and, if a permission is missing, the ACL that denies it.
func (e *OpError) Error() string {
	if owner, permission := e.guard(); permission != "" && e.Err == zk.ErrNoAuth { //nolint:errorlint // exactly this
		return fmt.Sprintf("%s %s: not authorized: the ACL of %s does not grant %s: see WithAuth, WithACL",
			e.Op, e.Path, owner, permission)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
}

// guard returns the node whose access list governs the operation, and the permission; "" if they are not known.
func (e *OpError) guard() (owner, permission string) {
	switch op := strings.TrimPrefix(e.Op, "multi: "); op {
	case "create", "delete":
		return path.Dir(e.Path), op
	case "get", "exists", "children", "acl", "check":
		return e.Path, "read"
	case "set":
		return e.Path, "write"
	case "set acl":
		return e.Path, "admin"
	default:
		return "", ""
	}
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// BusyError is returned by a Try call that would have to wait. It matches [ErrLocked].
type BusyError struct {
	// Path of the queue.
	Path string
	// Holder is the contender at the head of the queue. Its Path is empty if the contender left while it was being
	// read. For a semaphore, Holder is the first lease if too few leases are left. Otherwise it is the first caller
	// waiting at the semaphore's door, that is, waiting to take leases.
	Holder Participant
	// Queue is the number of contenders, including the holder; for a semaphore, the number of leases or of callers at
	// the door. The caller may be one of them.
	Queue int
}

// Error names the holder and when it joined the queue.
func (e *BusyError) Error() string {
	if e.Holder.Path == "" {
		return fmt.Sprintf("%s: %v: %d in the queue", e.Path, ErrLocked, e.Queue)
	}
	return fmt.Sprintf("%s: %v: %s, %d in the queue", e.Path, ErrLocked, e.Holder, e.Queue)
}

// Is reports that every BusyError matches [ErrLocked].
func (e *BusyError) Is(target error) bool { return target == ErrLocked }

// TakenError reports which node occupies the path of a node that this client wants to keep. It matches [ErrTaken].
type TakenError struct {
	// Path of the node.
	Path string
	// Session that owns the node; 0 if the node is not ephemeral.
	Session int64
	// Czxid of the node, which identifies its incarnation.
	Czxid int64
	// Data of the node, which may identify its owner.
	Data []byte
}

// Error names the owner.
func (e *TakenError) Error() string {
	node := fmt.Sprintf("czxid 0x%x", e.Czxid)
	if len(e.Data) > 0 {
		node += fmt.Sprintf(", data %q", excerpt(e.Data))
	}
	if e.Session == 0 {
		return fmt.Sprintf("%s: taken by a node that is not ephemeral (%s): delete it if nothing needs it", e.Path, node)
	}
	return fmt.Sprintf("%s: %v: 0x%x (%s): the node is removed when that session ends",
		e.Path, ErrTaken, uint64(e.Session), node)
}

// excerpt returns as much of data as fits into a message.
func excerpt[T string | []byte](data T) T { return data[:min(len(data), 64)] }

// Is reports that every TakenError matches [ErrTaken].
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// WaitError is returned by an acquisition whose context was canceled or timed out while it waited.
type WaitError struct {
	// Path of the queue.
	Path string
	// Position is the caller's place in the queue when it last looked, counting the holder as 1; 0 if it never saw the
	// queue. If a semaphore has too few leases left, all lease holders together count as one place.
	Position int
	// Holder is the contender that was at the head of the queue; for a semaphore, as in [BusyError].
	Holder Participant
	// Queue is the length of the queue when the caller last looked.
	Queue int
	// Err matches the context's cause and describes what the caller was waiting for, such as a server that did not
	// answer.
	Err error
}

// Error names the caller's place in the queue and the contender that held the lock.
func (e *WaitError) Error() string {
	if e.Position == 0 {
		return fmt.Sprintf("%s: gave up without a place in the queue: %v", e.Path, e.Err)
	}
	if e.Holder.Path == "" {
		return fmt.Sprintf("%s: gave up at place %d: %d in the queue: %v", e.Path, e.Position, e.Queue, e.Err)
	}
	return fmt.Sprintf("%s: gave up at place %d: held by %s, %d in the queue: %v", e.Path, e.Position, e.Holder, e.Queue,
		e.Err)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }
