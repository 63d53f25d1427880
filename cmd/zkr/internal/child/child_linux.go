package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const orphansStay = true // below this process, after adoptOrphans

// canConfine is false for a process with CAP_SETUID: a descendant that inherits the capability can become another user
// without gaining privileges, see confine.
var canConfine = !has(unix.CAP_SETUID)

func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper: %w", err)
	}
	return nil
}

// confine keeps everything that this thread starts from gaining privileges: set-user-id programs and file capabilities
// have no effect, so no descendant can become another user, whose processes this one may not signal.
func confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// maySignalAll reports whether this process may signal the processes of other users. Root in a container may lack that
// capability.
func maySignalAll() bool { return has(unix.CAP_KILL) }

func has(capability uint) bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	return err == nil && sets[0].Effective&(1<<capability) != 0
}

// attributes returns the attributes of a command in a process group; 0 is the group of this process.
func attributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group != 0, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// processes lists the processes in /proc.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read-only
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("/proc is empty: is it mounted?")
	}
	return all, nil
}

// readProcess reads /proc/PID/stat: "pid (name) state parent group ...", where the name may contain spaces and
// parentheses.
func readProcess(pid int) (process, bool) {
	stat, err := readStat(pid)
	if err != nil {
		return process{}, false // the process has ended in the meantime
	}
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	fields := bytes.Fields(rest)
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	threads, err3 := strconv.Atoi(string(fields[17]))
	if err1 != nil || err2 != nil || err3 != nil {
		return process{}, false
	}
	state := fields[0][0]
	// A process whose first thread has ended is in state Z while its other threads run.
	dead := state == 'X' || state == 'Z' && threads <= 1
	return process{pid, parent, group, dead, string(fields[19])}, true
}

// readStat is os.ReadFile with a third of the system calls, since there may be thousands of processes to read.
func readStat(pid int) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 1024) // at most 52 numbers and a name of 64 bytes, in one read
	n, err := unix.Read(fd, line)
	_ = unix.Close(fd) // read-only
	return line[:max(n, 0)], err
}

// signal signals this process, and never another one that has taken its pid in the meantime: FindProcess opens a handle
// on the process that has the pid now, and the start time shows whether that is still the process in the list.
func (p process) signal(s syscall.Signal) error {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	defer handle.Release() //nolint:errcheck // cannot fail
	if now, ok := readProcess(p.pid); !ok || now.since != p.since {
		return os.ErrProcessDone
	}
	return handle.Signal(s)
}
