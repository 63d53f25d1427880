package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

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

const zombie = 5 // SZOMB of sys/proc.h

func processes() ([]process, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(list))
	for i := range list {
		p := &list[i]
		all = append(all, process{
			pid: int(p.Proc.P_pid), parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid), dead: p.Proc.P_stat == zombie,
		})
	}
	return all, nil
}

func (p process) signal(s syscall.Signal) error { return syscall.Kill(p.pid, s) }
