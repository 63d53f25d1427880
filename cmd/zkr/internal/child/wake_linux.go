package child

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// wakeAtEnd makes the kernel send SIGCONT to this process when the last writer of a pipe is gone, to which nothing is
// ever written. A stopped host is therefore resumed when its guard is killed, and kills what the guard left behind: a
// stopped process cannot refuse SIGCONT.
func wakeAtEnd(pipe *os.File) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	set := func(fd uintptr, command, value int) (was int) {
		was, failed := unix.FcntlInt(fd, command, value)
		err = errors.Join(err, failed)
		return was
	}
	closed := raw.Control(func(fd uintptr) {
		set(fd, unix.F_SETOWN, os.Getpid())
		set(fd, unix.F_SETSIG, int(syscall.SIGCONT))
		set(fd, unix.F_SETFL, set(fd, unix.F_GETFL, 0)|unix.O_ASYNC)
	})
	return errors.Join(closed, err)
}
