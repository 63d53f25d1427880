// Package exit defines the exit statuses of zkr and the errors that carry them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// The exit statuses of zkr itself. Those up to 78 follow sysexits.h, those from 124 on follow timeout(1) and the
// shells.
const (
	Usage       = 64
	CannotTell  = 66
	Unreachable = 69
	Busy        = 75
	NoAccess    = 77
	Lost        = 79
	MaxRun      = 124
	Failure     = 125
	CannotRun   = 126
	NotFound    = 127
	signalled   = 128 // plus the number of the signal
)

// Error is an error with an exit status. If it wraps no error, nothing is printed.
type Error struct {
	code    int
	err     error
	program bool // the status is the program's, not one of zkr
}

func (e *Error) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *Error) Unwrap() error { return e.err }

// With attaches an exit status to an error. With a nil err, nothing is printed.
func With(code int, err error) error { return &Error{code: code, err: err} }

// Program returns an error that passes on the exit status of the program.
func Program(code int) error { return &Error{code: code, program: true} }

// IsProgram reports whether the status of err is the program's.
func IsProgram(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.program
}

// Usagef returns an error for an invalid invocation of zkr.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// OfStart attaches a status to an error of starting a program. CannotRun and NotFound are reserved for conditions that
// persist until someone changes the program: it does not exist, or cannot be executed. Conditions that may pass, such
// as a lack of processes, descriptors or memory, or a file that is being written, are ordinary failures.
func OfStart(err error) error {
	const badFormat = syscall.Errno(193) // ERROR_BAD_EXE_FORMAT of Windows
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot):
		return With(NotFound, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR),
		errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.E2BIG), runtime.GOOS == "windows" && errors.Is(err, badFormat):
		return With(CannotRun, err)
	}
	return With(Failure, err)
}

// AsFlags replaces the options that errors of the library name by the flags of zkr, and adds flags to TLS handshake
// errors. Hints for which zkr has no flag are removed. Of two names with a common prefix, the longer one comes first.
var AsFlags = strings.NewReplacer(
	"WithServers", "--servers", "WithServer", "--kerberos-server", "WithAuth", "--auth-file", "WithSASL", "--auth-file",
	"WithACL", "--acl",
	"WithTLSFunc", "--tls-ca", "WithTLS", "--tls-ca", "WithTickTime", "--tick-time", "set Address", "pass --address",
	"WithReturnGrace", "--return-grace", "WithID", "--id", "WithLimitNode", "--limit-node",
	"the option WithKazoo", "--kazoo", "WithKazoo", "--kazoo",
	"the option WithLayout(election.Selector)", "--layout selector", "an election with the layout election.Latch",
	"zkr elect",
	" or set WithMaxRequestSize", "", ", or set WithMaxRequestSize if jute.maxbuffer of the servers is larger", "",
	" (WithMaxRequestSize)", "", " (WithMaxReplySize)", "",
	"cache less, or raise WithMaxNodes", "see --ui-root", "cache less, or raise WithMaxBytes", "see --ui-root",
	// The server may want digest or x509 instead.
	zkrecipes.CodeNeedsSASL.Error(), "the server requires authentication (-124)",
	"certificate signed by unknown authority", "certificate signed by unknown authority: see --tls-ca",
	"because it doesn't contain any IP SANs", "because it doesn't contain any IP SANs: see --tls-server-name",
	"x509: certificate is valid for",
	"x509: the certificate does not match the name in --servers or --tls-server-name: it is valid for",
	"x509: certificate is not valid for any names",
	"x509: the certificate does not match the name in --servers or --tls-server-name: it is not valid for any names",
	"remote error: tls: certificate required", "the server requires a certificate: pass --tls-cert and --tls-key",
	// Java reports a missing certificate this way, too.
	"remote error: tls: bad certificate", refused+"bad certificate, or none",
	"remote error: tls: unknown certificate authority", refused+"unknown certificate authority",
	"remote error: tls: unknown certificate", refused+"unknown certificate",
	"remote error: tls: expired certificate", refused+"expired certificate",
	"remote error: tls: revoked certificate", refused+"revoked certificate",
	"remote error: tls: unsupported certificate", refused+"unsupported certificate",
)

const refused = "the server refused the certificate of --tls-cert: "

// Stopped is the cause of a context that a signal has ended.
type Stopped struct{ Signal os.Signal }

func (s *Stopped) Error() string { return fmt.Sprintf("stopped by signal %v", s.Signal) }

func (s *Stopped) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return signalled + int(number)
	}
	return Failure
}

// Status returns the exit status for the result of a verb, and the message to print.
func Status(err error) (code int, message string) {
	var e *Error
	var s *Stopped
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &e):
		if e.err == nil {
			return e.code, ""
		}
		return e.code, err.Error()
	case errors.As(err, &s):
		return s.code(), ""
	case errors.Is(err, zkrecipes.ErrAuthFailed), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed):
		return NoAccess, err.Error()
	case errors.Is(err, zkrecipes.CodeNeedsSASL):
		return NoAccess, "the servers require authentication: pass --auth-file, --kerberos, or --tls-cert and --tls-key, " +
			"depending on their enforce.auth.schemes: " + err.Error()
	case errors.Is(err, zk.ErrInvalidACL):
		return NoAccess, err.Error() + ": see --acl, and --auth-file for the scheme auth"
	case errors.Is(err, zkrecipes.ErrLost):
		return Lost, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return Unreachable, err.Error()
	}
	return Failure, err.Error()
}
