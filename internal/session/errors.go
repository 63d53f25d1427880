package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpError is the error of an operation.
type OpError = zkrecipes.OpError

// outcome is what an error implies about the execution of a request.
type outcome int

const (
	refused outcome = iota // the server answered: not executed
	unsent                 // never reached the server
	unknown                // may have been executed
	expired                // not executed: the session has ended
)

func outcomeOf(err error) outcome {
	var code zkrecipes.Code
	switch {
	case errors.As(err, &code):
		switch {
		case code == -4, code == -7, code == zkrecipes.CodeRequestTimeout, wire.ServerFault(code):
			return unknown
		case code == zkrecipes.CodeThrottled:
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
	default: // connection loss, or an unreadable reply
		return unknown
	}
}

var refusals = []error{
	zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
	zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrNothing,
	ErrNotDeleted,
}

// unknownOutcome returns an error that the outcome of a write is unknown because of err.
func unknownOutcome(err error) error {
	return fmt.Errorf("%w: %w", zkrecipes.ErrUnknownOutcome, err)
}
