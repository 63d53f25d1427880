package session

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpError says which operation on which path failed; see package conn.
type OpError struct {
	Op   string
	Path string // as the client sees it, without the chroot
	Err  error
}

// Error names the operation and the path, and for want of a permission the access list that forbids it.
func (e *OpError) Error() string {
	if owner, permission := e.guard(); permission != "" && e.Err == zk.ErrNoAuth { //nolint:errorlint // the server's answer itself
		return fmt.Sprintf("%s %s: access list of %s forbids %s: see WithAuth, WithACL", e.Op, e.Path, owner, permission)
	}
	return e.Op + " " + e.Path + ": " + e.Err.Error()
}

// guard returns the node whose access list decides on the operation, and the permission; "" if it is not known.
func (e *OpError) guard() (owner, permission string) {
	switch op := strings.TrimPrefix(e.Op, "multi: "); op {
	case "create", "delete":
		return path.Dir(e.Path), op
	case "get", "children", "check":
		return e.Path, "read"
	case "set":
		return e.Path, "write"
	default:
		return "", ""
	}
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Errors of a session's life; package conn documents them.
var (
	ErrAuthFailed = lifetime.ErrAuthFailed
	ErrTooLarge   = lifetime.ErrTooLarge
)

// ErrUnimplemented says that the server does not know the operation.
const ErrUnimplemented = wire.CodeUnimplemented

// outcome is what an error says of whether the request was executed.
type outcome int

const (
	refused outcome = iota // the server answered: not executed
	unsent                 // never reached the server
	unknown                // may have been executed
	expired                // not executed: the session is over
)

func outcomeOf(err error) outcome {
	var code wire.Code
	switch {
	case errors.As(err, &code):
		switch {
		case code == -4, code == -7, code == wire.CodeRequestTimeout, wire.ServerFault(code):
			return unknown
		case code == wire.CodeThrottled:
			return unsent
		default:
			return refused
		}
	case errors.Is(err, zk.ErrSessionExpired):
		return expired
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionMoved):
		return unsent
	case slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }):
		return refused
	default: // connection loss, or a reply that cannot be read
		return unknown
	}
}

var refusals = []error{
	zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
	zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrNothing,
	ErrNotDeleted,
}

// unknownOutcome says that the outcome of a write is unknown, and why.
func unknownOutcome(err error) error {
	return fmt.Errorf("%w: %w", zkrecipes.ErrUnknownOutcome, err)
}
