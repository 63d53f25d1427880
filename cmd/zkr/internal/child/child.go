// Package child starts a command, and ends it together with everything that it has started.
//
// On Unix, a guard process sits between this process and the command. If this process is killed, or is stopped past the
// deadline, the guard kills the command and everything that it has started.
//
// On Linux, both processes are subreapers of their descendants: a process that calls setsid, or whose parent has ended,
// remains below them and is found in /proc. If the guard is killed, the kernel kills the command and, if this process
// is stopped, resumes it so that it kills the rest. If the guard is stopped, a kernel timer resumes it in time for the
// deadline. No descendant can become another user, whose processes this one may not signal: see Command.Setuid. Where
// this process may create a control group, it also kills through that group.
//
// On macOS, descendants are found by their parents and by the process group, so a daemon that leaves both escapes. If
// the guard is killed, a command that shares the terminal's group escapes too, because its parent is gone.
//
// On Windows, a job object contains all descendants, even when this process is killed.
package child

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Command is the command to start.
type Command struct {
	Path  string   // of the file to execute
	Args  []string // including the name of the command
	Env   []string
	Files []*os.File // standard input, output and error: real files, so that no copying goroutine waits for descendants
	// Terminal keeps the command in the process group of this process, which is that of the terminal. Otherwise the
	// command gets a new group, which the terminal's keys do not reach. Windows has no such groups.
	Terminal bool
	// Setuid allows the command to gain privileges, for example through a set-user-id program. If it is false, Linux
	// withholds such privileges unless this process could signal a process that has gained them.
	Setuid bool
	// Cgroup puts the command into a new control group if this process may create one on Linux.
	Cgroup bool
	// State is a file that is created before the command starts, in a new directory, with Record as its content. "" means
	// none. The caller removes both. If this process is killed, the guard does.
	State  string
	Record string
	// KillAt is the initial deadline, see Child.KillAt.
	KillAt time.Duration
}

// ErrLate means that the command was not started because the deadline had already passed.
var ErrLate = errors.New("the deadline has passed")

// Status is how a command ended.
type Status struct {
	Code   int // its exit code; 128+n if signal n killed it
	Signal os.Signal
	// Overdue means that the guard killed it at the deadline.
	Overdue bool
}

// makeState creates the state file of a command and its directory, or neither.
func makeState(file, record string) error {
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		return &os.PathError{Op: "create", Path: file, Err: err}
	}
	if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
		removeState(file)
		return &os.PathError{Op: "create", Path: file, Err: err}
	}
	return nil
}

func removeState(file string) {
	_ = os.Remove(file) // if this fails, the file stays
	_ = os.Remove(filepath.Dir(file))
}
