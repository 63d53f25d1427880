package conn

import (
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpError says which operation on which path failed. Its fields are Op, Path, as the client sees it, and Err, which keeps
// what the server said, such as zk.ErrNoNode.
type OpError = session.OpError

// ErrAuthFailed says that the server refused the credentials given with [WithAuth].
var ErrAuthFailed = session.ErrAuthFailed

// ErrTooLarge says that a request was not sent, because a server with its default jute.maxbuffer of 1 MiB would answer
// it by dropping the connection.
var ErrTooLarge = session.ErrTooLarge

// Code is an error code of the server that go-zookeeper has no variable for; it is an error, for errors.Is.
type Code = wire.Code

// The codes that a caller may meet.
const (
	CodeUnimplemented  = wire.CodeUnimplemented  // the server is too old for the operation
	CodeQuotaExceeded  = wire.CodeQuotaExceeded  // an enforced quota is used up
	CodeThrottled      = wire.CodeThrottled      // the server sheds load
	CodeRequestTimeout = wire.CodeRequestTimeout // the server gave up on the request
	CodeNotReadOnly    = wire.CodeNotReadOnly    // the server is read-only
	CodeNeedsSASL      = wire.CodeNeedsSASL      // the server wants SASL
)

// ValidatePath reports why path cannot name a znode: it must be absolute, without a trailing slash, without empty, "."
// or ".." parts, and without control characters. The root "/" is valid.
func ValidatePath(path string) error { return session.ValidatePath(path) }
