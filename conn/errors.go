package conn

import (
	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpError says which operation on which path failed.
type OpError = zkrecipes.OpError

// ErrAuthFailed says that the server refused the credentials given with [WithAuth] or [WithSASL].
var ErrAuthFailed = zkrecipes.ErrAuthFailed

// ErrTooLarge says that a request or its reply is too large. A request above [WithMaxRequestSize] was not sent. A reply above
// [WithMaxReplySize] was not read. A request also counts as too large if two connections in a row ended under it: servers hang up
// on what is above their jute.maxbuffer. If a write may have been executed, the error also matches zkrecipes.ErrUnknownOutcome.
var ErrTooLarge = session.ErrTooLarge

// Code is an error code of the server that go-zookeeper has no variable for. It is an int32, the number that the server sent, and
// an error, for errors.Is.
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

// ValidatePath reports why path cannot name a znode. A valid path is absolute and has no trailing slash. No part of it is empty,
// "." or "..". It has no control, private or special characters, and none above U+FFFF, such as emoji. The root "/" is valid.
func ValidatePath(path string) error { return session.ValidatePath(path) }
