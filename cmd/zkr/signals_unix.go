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

// sentToGroup reports whether the program has had a signal of its terminal already. The kernel and the shell send these to the
// whole group. But the end of a terminal is told to the leader of the session alone: zkr is it if ssh -t or docker run -t
// started it without a shell.
func sentToGroup(one os.Signal) bool {
	switch one {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		return true
	case syscall.SIGHUP:
		leader, err := unix.Getsid(0)
		return err != nil || leader != os.Getpid()
	}
	return false
}

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
