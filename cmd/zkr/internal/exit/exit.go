// Package exit has the exit statuses of zkr, and the errors that carry them.
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

// The exit statuses of zkr itself. Those up to 78 are of sysexits.h, those from 124 on of timeout(1) and the shells.
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
	signalled   = 128 // and the number of the signal
)

// Error is an error with an exit status. Without an error in it, nothing is printed.
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

// With gives an error an exit status. A nil err prints nothing.
func With(code int, err error) error { return &Error{code: code, err: err} }

// Program passes on the exit status of the program.
func Program(code int) error { return &Error{code: code, program: true} }

// IsProgram reports whether a status is the program's.
func IsProgram(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.program
}

// Usagef is an error in how zkr was called.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// OfStart gives an error of starting a program its status. Only what stays as it is until someone changes the program is final: that
// it is not there, or cannot be executed. What may pass, such as a lack of processes, descriptors or memory, or a file that is being written,
// is a failure as any other.
func OfStart(err error) error {
	const badFormat = syscall.Errno(193) // ERROR_BAD_EXE_FORMAT of Windows
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot):
		return With(NotFound, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.E2BIG), runtime.GOOS == "windows" && errors.Is(err, badFormat):
		return With(CannotRun, err)
	}
	return With(Failure, err)
}

// AsFlags puts the flags of zkr in place of the options that errors of the library name.
var AsFlags = strings.NewReplacer("WithAuth", "--auth-file", "WithSASL", "--auth-file", "WithACL", "--acl", "WithTLS", "--tls-ca",
	"set Address", "give --address", "WithReturnGrace", "--return-grace", "WithID", "--id", "the option WithKazoo", "--kazoo", "WithKazoo", "--kazoo", "WithLimitNode", "--limit-node", "WithTickTime", "--tick-time",
	"WithServer", "--kerberos-server",
	zkrecipes.CodeNeedsSASL.Error(), "the server requires authentication (-124)", // digest or x509 may be what it wants
	"the option WithLayout(election.Selector)", "--layout selector", "an election with the layout election.Latch", "zkr elect")

// Stopped is the cause of a context that a signal has ended.
type Stopped struct{ Signal os.Signal }

func (s *Stopped) Error() string { return fmt.Sprintf("stopped by signal %v", s.Signal) }

func (s *Stopped) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return signalled + int(number)
	}
	return Failure
}

// Status is the exit status for what a verb returned, and the message to print.
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
		return NoAccess, err.Error() + ": give --auth-file, --kerberos, or --tls-cert and --tls-key, by a scheme in enforce.auth.schemes of the servers"
	case errors.Is(err, zk.ErrInvalidACL):
		return NoAccess, err.Error() + ": see --acl, and --auth-file for the scheme auth"
	case errors.Is(err, zkrecipes.ErrLost):
		return Lost, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return Unreachable, err.Error()
	}
	return Failure, err.Error()
}
