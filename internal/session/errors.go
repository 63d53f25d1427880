package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpError says which operation on which path failed. Err keeps what the server said, such as zk.ErrNoNode.
type OpError struct {
	Op   string
	Path string // as the client sees it: the chroot is taken off
	Err  error
}

// Error names the operation and the path.
func (e *OpError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// ErrAuthFailed says that the server refused the credentials given with [WithAuth].
var ErrAuthFailed = errors.New("credentials refused: check the scheme and the credential given to WithAuth")

// ErrTooLarge says that a request was not sent, because a server with its default jute.maxbuffer of 1 MiB would answer
// it by dropping the connection.
var ErrTooLarge = errors.New("request above the server's limit of 1 MiB")

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
	default: // connection loss, and what cannot be read
		return unknown
	}
}

var refusals = []error{
	zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
	zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrNothing,
	ErrNotLeft,
}

// unknownOutcome joins why the outcome of a write is unknown to the fact that it is.
func unknownOutcome(err error) error {
	return fmt.Errorf("%w: %w", zkrecipes.ErrUnknownOutcome, err)
}
