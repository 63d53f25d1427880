package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
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

// Code is an error code of the server that go-zookeeper has no variable for.
type Code int32

// The codes that a caller may meet.
const (
	CodeUnimplemented  Code = -6   // the server is too old for the operation
	CodeQuotaExceeded  Code = -125 // an enforced quota is used up
	CodeThrottled      Code = -127 // the server sheds load
	CodeRequestTimeout Code = -122 // the server gave up on the request
	CodeNotReadOnly    Code = -119 // the server is read-only
	CodeNeedsSASL      Code = -124 // the server wants SASL
)

// Error names the code.
func (c Code) Error() string {
	switch c {
	case CodeUnimplemented:
		return "the server does not implement this operation (-6)"
	case CodeQuotaExceeded:
		return "quota exceeded (-125)"
	case CodeThrottled:
		return "the server throttles requests (-127)"
	case CodeRequestTimeout:
		return "the server timed the request out (-122)"
	case CodeNotReadOnly:
		return "the server is read-only (-119)"
	case CodeNeedsSASL:
		return "the server wants SASL authentication (-124)"
	default:
		return fmt.Sprintf("server error %d", int32(c))
	}
}

// errorOf returns the error for the code of a reply: go-zookeeper's variable if it has one.
func errorOf(code int32) error {
	if err, ok := libraryErrors[code]; ok {
		return err
	}
	return Code(code)
}

var libraryErrors = map[int32]error{
	0: nil, -8: zk.ErrBadArguments, -100: zk.ErrAPIError, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals, -110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, -112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL, -115: zk.ErrAuthFailed, -116: zk.ErrClosing, -118: zk.ErrSessionMoved,
	-117: zk.ErrNothing, -123: zk.ErrReconfigDisabled,
}

// ServerFault reports whether err says that something went wrong in the server, perhaps only when it made the reply: a
// write may have been executed, and asking again is not likely to help.
func ServerFault(err error) bool {
	var code Code
	return errors.As(err, &code) && code >= -5 && code <= -1 && code != -4
}

// outcome is what an error says of whether the request was executed.
type outcome int

const (
	refused outcome = iota // the server answered: not executed
	unsent                 // never reached the server
	unknown                // may have been executed
	expired                // not executed: the session is over
)

func outcomeOf(err error) outcome {
	var code Code
	switch {
	case errors.As(err, &code):
		switch {
		case code == -4, code == -7, code == CodeRequestTimeout, ServerFault(code):
			return unknown
		case code == CodeThrottled:
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
