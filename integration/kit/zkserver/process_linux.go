package zkserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// processAttr makes the kernel kill the server when the test process ends, and sets the user id unless it is 0.
func processAttr(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return attr
}

// stopped reports whether all threads of a process have stopped. After SIGSTOP, a thread may keep running for a moment.
func stopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err == nil && !bytes.Contains(text, []byte(") T ")) {
			return false
		}
	}
	return true
}
