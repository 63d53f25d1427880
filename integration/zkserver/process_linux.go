package zkserver

import "syscall"

// processAttr ends the server with the test process, however that ends, and gives it the user id, if one is set.
func processAttr(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return attr
}
