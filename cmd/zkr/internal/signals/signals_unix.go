//go:build unix

package signals

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handled are the signals that zkr forwards. The job control signals keep their meaning for zkr itself, except SIGCONT:
// zkr checks the clock when it resumes.
var Handled = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// stopping are the signals that end a process that does not handle them.
var stopping = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// SentToGroup reports whether the program has already received a signal of its terminal. The kernel and the shell send
// these signals to the whole group. The end of a terminal, however, is only reported to the session leader, which zkr
// is if ssh -t or docker run -t started it without a shell.
func SentToGroup(one os.Signal) bool {
	switch one {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		return true
	case syscall.SIGHUP:
		leader, err := unix.Getsid(0)
		return err != nil || leader != os.Getpid()
	}
	return false
}

// OfTerminal reports whether a signal stops a process because it uses a terminal in the background.
func OfTerminal(one os.Signal) bool { return one == syscall.SIGTTIN || one == syscall.SIGTTOU }

// Continue resumes a stopped process.
const Continue = syscall.SIGCONT

// Named returns the signal with a name such as TERM or SIGTERM, in upper or lower case.
func Named(name string) (os.Signal, bool) {
	upper := strings.ToUpper(name)
	if number := unix.SignalNum(upper); number != 0 {
		return number, true
	}
	if number := unix.SignalNum("SIG" + upper); number != 0 {
		return number, true
	}
	return nil, false
}
