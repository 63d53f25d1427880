// Package child starts a command, and ends it together with everything that it has started.
//
// On Unix, a guard process stands between this process and the command. If this process is killed, or is stopped past the
// deadline, the guard kills the command and everything that it has started.
//
// On Linux, both are subreapers of their descendants: a process that calls setsid, or whose parent has ended, stays
// below them and is found in /proc. If the guard is killed, the kernel kills the command, and resumes this process if
// it is stopped, so that it kills the rest. If the guard is stopped, a timer of the kernel resumes it in time for the
// deadline. No descendant becomes another user, whose processes this one may not signal: see Command.Setuid. Where
// this process may make a control group, it kills by that as well.
//
// On macOS, descendants are found by their parents and by the process group, so a daemon that leaves both escapes. If the guard
// is killed, so does a command that shares the terminal's group, because its parent is gone.
//
// On Windows, a job object holds all descendants, even when this process is killed.
package child

import (
	"errors"
	"os"
	"time"
)

// Command is what to start.
type Command struct {
	Path  string   // of the file to execute
	Args  []string // with the name of the command
	Env   []string
	Files []*os.File // standard input, output and error: real files, so that no copier waits for descendants
	// Terminal means that the command stays in the process group of this process, which is the terminal's. Otherwise
	// it gets a new group, for which the terminal's keys do nothing. Windows has no such groups.
	Terminal bool
	// Setuid lets the command gain privileges, as by a set-user-id program. Otherwise Linux refuses them, if this process could
	// not signal a process that has gained them.
	Setuid bool
	// Cgroup puts the command into a new control group where Linux lets this process make one.
	Cgroup bool
	// State is a file. If this process is killed, the guard removes it, with its directory. "" is none.
	State string
	// KillAt is the first deadline, see Child.KillAt.
	KillAt time.Duration
}

// ErrLate says that the deadline had passed before the command could be started. It was not started.
var ErrLate = errors.New("the deadline has passed")

// Status is how a command has ended.
type Status struct {
	Code   int // that it exited with; 128+n if signal n has killed it
	Signal os.Signal
	// Overdue says that the guard has killed it at the deadline.
	Overdue bool
}
