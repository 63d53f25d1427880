//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// handled are the signals that zkr passes on. Those of job control keep their meaning for zkr itself, but SIGCONT: zkr looks
// at the clock when it goes on.
var handled = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// stopping are the signals that end a process which does not handle them.
var stopping = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// fromTerminal are the signals that the kernel or the shell sends to the whole group of a terminal.
var fromTerminal = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH}

const goOn = syscall.SIGCONT

// signalNamed finds TERM, SIGTERM or 15.
func signalNamed(name string) (os.Signal, bool) {
	upper := strings.ToUpper(name)
	if number := unix.SignalNum(upper); number != 0 {
		return number, true
	}
	if number := unix.SignalNum("SIG" + upper); number != 0 {
		return number, true
	}
	return nil, false
}

func keepFromChild(file *os.File) { unix.CloseOnExec(int(file.Fd())) }
