package signals

import (
	"os"
	"strings"
	"syscall"
)

// Handled are the signals of Windows: the interrupt of a console, and the SIGTERM of its closing.
var Handled = []os.Signal{os.Interrupt, syscall.SIGTERM}

var stopping = Handled

// SentToGroup reports false: a command is in a separate process group, which gets no Ctrl-C.
func SentToGroup(os.Signal) bool { return false }

// Continue resumes a process that was stopped.
const Continue = syscall.Signal(-1) // no such signal

// Named finds TERM or INT, which both are a Ctrl-Break.
func Named(name string) (os.Signal, bool) {
	switch strings.TrimPrefix(strings.ToUpper(name), "SIG") {
	case "TERM", "INT", "BREAK":
		return os.Interrupt, true
	}
	return nil, false
}
