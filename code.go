package zkrecipes

import "fmt"

// Code is a server's error code for which go-zookeeper has no variable. It implements error, so you can match it with
// [errors.Is] and one of the constants.
type Code int32

// The codes you may encounter.
const (
	CodeUnimplemented  Code = -6   // the server is too old for the operation
	CodeQuotaExceeded  Code = -125 // an enforced quota is exceeded
	CodeThrottled      Code = -127 // the server sheds load
	CodeRequestTimeout Code = -122 // the server gave up on the request
	CodeNotReadOnly    Code = -119 // the server is read-only
	CodeLocalSession   Code = -120 // the session is local, and an ephemeral node needs a global one
	CodeNeedsSASL      Code = -124 // the server requires SASL
)

// Error names the code.
func (c Code) Error() string {
	switch c {
	case CodeUnimplemented:
		return "the server does not implement this operation (-6)"
	case CodeQuotaExceeded:
		return "quota exceeded (-125)"
	case CodeThrottled:
		return "the server is throttling requests (-127)"
	case CodeRequestTimeout:
		return "the request timed out on the server (-122)"
	case CodeNotReadOnly:
		return "the server is read-only (-119)"
	case CodeLocalSession:
		return "ephemeral nodes need a global session, but this one is local: " +
			"set localSessionsUpgradingEnabled=true on the servers (-120)"
	case CodeNeedsSASL:
		return "the server requires SASL authentication (-124)"
	default:
		return fmt.Sprintf("server error %d", int32(c))
	}
}
