package conn

import "github.com/zkrecipes/zkrecipes/internal/session"

// ErrTooLarge is returned when a request or its reply is too large. A request above [WithMaxRequestSize] was
// not sent. A reply above [WithMaxReplySize] was not read. A request also counts as too large if two
// connections in a row ended while it was unanswered, because servers hang up on requests above their
// jute.maxbuffer. If a write may have been executed, the error also matches zkrecipes.ErrUnknownOutcome.
var ErrTooLarge = session.ErrTooLarge

// ValidatePath reports why path cannot name a znode. A valid path is absolute and has no trailing slash. No
// part of it is empty, "." or "..". It has no control, private or special characters, and none above U+FFFF,
// such as emoji. The root "/" is valid. The error describes what a valid path would be.
func ValidatePath(path string) error { return session.ValidatePath(path) }
