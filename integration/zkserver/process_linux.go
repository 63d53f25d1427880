package zkserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// processAttr ends the server with the test process, however that ends, and gives it the user id, if one is set.
func processAttr(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return attr
}

// stopped tells whether all threads of a process have come to a halt after SIGSTOP: each goes on until it is scheduled.
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
