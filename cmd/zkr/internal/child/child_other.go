//go:build unix && !linux

package child

import "syscall"

const (
	orphansStay = false // below this process, after adoptOrphans
	canConfine  = false // see confine
)

func adoptOrphans() error { return nil } // process 1 adopts them

func confine() error { return nil } // no equivalent of no_new_privs exists

func maySignalAll() bool { return syscall.Geteuid() == 0 }

// attributes returns the attributes of a command in a process group; 0 is the group of this process.
func attributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group != 0, Pgid: group}
}

func (p process) signal(s syscall.Signal) error { return syscall.Kill(p.pid, s) }
