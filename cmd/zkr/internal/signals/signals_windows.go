package signals

import (
	"os"
	"strings"
	"syscall"
)

// Handled are the signals of Windows: the interrupt of a console, and the SIGTERM when it closes.
var Handled = []os.Signal{os.Interrupt, syscall.SIGTERM}

var stopping = Handled

// SentToGroup returns false: a command is in a separate process group, which receives no Ctrl-C.
func SentToGroup(os.Signal) bool { return false }

// OfTerminal returns false, because nothing stops a process.
func OfTerminal(os.Signal) bool { return false }

// Continue resumes a stopped process.
const Continue = syscall.Signal(-1) // no such signal

// Named returns the signal with the name TERM or INT, both of which are a Ctrl-Break.
func Named(name string) (os.Signal, bool) {
	switch strings.TrimPrefix(strings.ToUpper(name), "SIG") {
	case "TERM", "INT", "BREAK":
		return os.Interrupt, true
	}
	return nil, false
}
