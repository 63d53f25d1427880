package wire

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// ErrorOf returns the error for a reply's code: go-zookeeper's variable if there is one, otherwise a zkrecipes.Code.
func ErrorOf(code int32) error {
	if err, ok := libraryErrors[code]; ok {
		return err
	}
	return zkrecipes.Code(code)
}

var libraryErrors = map[int32]error{
	0: nil, -8: zk.ErrBadArguments, -100: zk.ErrAPIError, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals, -110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, -112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL, -115: zk.ErrAuthFailed, -116: zk.ErrClosing, -118: zk.ErrSessionMoved,
	-117: zk.ErrNothing, -123: zk.ErrReconfigDisabled,
}

// ServerFault reports whether err is an internal server error, which may have occurred while the server produced the
// reply. A write may have been executed, and sending it again is unlikely to help.
func ServerFault(err error) bool {
	var code zkrecipes.Code
	return errors.As(err, &code) && code >= -5 && code <= -1 && code != -4
}
