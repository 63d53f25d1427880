package wire

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

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

// ErrorOf returns the error for the code of a reply: go-zookeeper's variable if it has one.
func ErrorOf(code int32) error {
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
