//go:build !linux

package zkserver

import "syscall"

func processAttr(int) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func stopped(int) bool { return true }
