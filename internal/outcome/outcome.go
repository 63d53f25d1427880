// Package outcome determines from a request's error whether it was executed. What is unknown is then settled by package
// ephemeral (by the GUID in a name), by doubt.go, createall.go and deleteall.go of package client (by version or data),
// by parents.go of package session (containers), by package record (values and counters), and by recipes that write
// on their own. Client.Create, Client.CreateTTL, Client.Multi and Hold.Txn leave it to their callers. docs/design.md
// lists every write under "A write in doubt".
package outcome

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Outcome is what an error implies about the execution of a request.
type Outcome int

// The outcomes.
const (
	Refused     Outcome = iota // the server answered: not executed
	NotExecuted                // never reached a server, or one asked for it to be sent again: it may be repeated
	Unknown                    // may have been executed
	Expired                    // not executed: the session has ended
)

// ErrNotDeleted means that a node to be deleted together with a create did not exist, so nothing was created.
var ErrNotDeleted = errors.New("no such node to delete, so nothing was created")

// Of returns the outcome of a request that failed with err.
func Of(err error) Outcome {
	var code zkrecipes.Code
	switch {
	case errors.As(err, &code):
		switch {
		case code == -4, code == -7, code == zkrecipes.CodeRequestTimeout, wire.ServerFault(code):
			return Unknown
		case code == zkrecipes.CodeThrottled:
			return NotExecuted
		default:
			return Refused
		}
	case errors.Is(err, zk.ErrSessionExpired):
		return Expired
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionMoved):
		return NotExecuted
	case slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }):
		return Refused
	default: // connection loss, or an unreadable reply
		return Unknown
	}
}

var refusals = []error{
	zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
	zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrNothing,
	ErrNotDeleted,
}

// InDoubt returns an error saying that the outcome of a write is unknown because of err.
func InDoubt(err error) error { return doubt{err} }

type doubt struct{ because error }

func (d doubt) Error() string { return fmt.Sprintf("%v: %v", zkrecipes.ErrUnknownOutcome, d.because) }

func (d doubt) Unwrap() []error { return []error{zkrecipes.ErrUnknownOutcome, d.because} }

// Because returns the reason for which err is in doubt, or err if it is not.
func Because(err error) error {
	var d doubt
	if errors.As(err, &d) {
		return d.because
	}
	return err
}

// Undecided returns the error of a write that is in doubt because of one error and remains so because of another. If
// doubt is nil, it returns err. The result only prints a server's answer in err, without matching it, because the
// answer is to another request: callers take zk.ErrBadVersion to mean that nothing was written.
func Undecided(doubt, err error) error {
	if doubt == nil {
		return err
	}
	if o := Of(err); o == Refused || o == NotExecuted {
		return fmt.Errorf("%w; then: %v", doubt, err) //nolint:errorlint // see above
	}
	return fmt.Errorf("%w; then: %w", doubt, err)
}
