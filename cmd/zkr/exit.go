package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
)

// The exit statuses of zkr itself. Those up to 78 are of sysexits.h, those from 124 on of timeout(1) and the shells.
const (
	exitUsage       = 64
	exitUnreachable = 69
	exitBusy        = 75
	exitNoAccess    = 77
	exitLost        = 79
	exitMaxRun      = 124
	exitFailure     = 125
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

// exit is an error with an exit status. Without an error in it, nothing is printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func exitWith(code int, err error) error { return &exit{code, err} }

func usagef(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

// stopped is the cause of a context that a signal has ended.
type stopped struct{ signal os.Signal }

func (s *stopped) Error() string { return fmt.Sprintf("stopped by signal %v", s.signal) }

func (s *stopped) code() int {
	if number, ok := s.signal.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitFailure
}

// exitCode is the exit status for what a verb returned, and the message to print.
func exitCode(err error) (code int, message string) {
	var e *exit
	var s *stopped
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
	case errors.Is(err, conn.ErrAuthFailed), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed):
		return exitNoAccess, err.Error()
	case errors.Is(err, zk.ErrInvalidACL):
		return exitNoAccess, err.Error() + ": see --acl, and --auth-file for the scheme auth"
	case errors.Is(err, zkrecipes.ErrLost):
		return exitLost, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable, err.Error()
	}
	return exitFailure, err.Error()
}
