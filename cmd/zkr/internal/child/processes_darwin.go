package child

import "golang.org/x/sys/unix"

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
