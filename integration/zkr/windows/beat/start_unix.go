//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// startDetached starts a program in a new session.
func startDetached(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
