package main

import (
	"os"
	"strings"
	"syscall"
)

// handled are the signals of Windows: the interrupt of a console, and the SIGTERM of its closing.
var handled = []os.Signal{os.Interrupt, syscall.SIGTERM}

var stopping = handled

// sentToGroup reports false: a command is in a process group of its own, which gets no Ctrl-C.
func sentToGroup(os.Signal) bool { return false }

const goOn = syscall.Signal(-1) // no such signal

// signalNamed finds TERM or INT, which both are a Ctrl-Break.
func signalNamed(name string) (os.Signal, bool) {
	switch strings.TrimPrefix(strings.ToUpper(name), "SIG") {
	case "TERM", "INT", "BREAK":
		return os.Interrupt, true
	}
	return nil, false
}

func keepFromChild(*os.File) {} // handles are not inherited unless they are given
