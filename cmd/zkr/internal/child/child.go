// Package child starts a command, and ends it together with everything that it has started.
//
// On Linux this process becomes the subreaper of its descendants: a process that calls setsid, or whose parent has ended,
// stays below it and is found in /proc. If this process is killed, the kernel kills the command itself, and nothing below it.
// On macOS, descendants are found by their parents and by the process group, so a daemon that leaves both escapes. A small
// guard process kills the group if this process is killed. On Windows, a job object holds all descendants, also in that case.
package child

import (
	"os"
)

// Command is what to start.
type Command struct {
	Path  string   // of the file to execute
	Args  []string // with the name of the command
	Env   []string
	Files []*os.File // standard input, output and error: real files, so that no copier waits for descendants
	// Terminal says that the command stays in the process group of this process, which is the terminal's. Otherwise it gets
	// a group of its own, for which the terminal's keys do nothing. Windows has no such groups.
	Terminal bool
}

// Status is how a command has ended.
type Status struct {
	Code   int // that it exited with; 128+n if signal n has killed it
	Signal os.Signal
}
