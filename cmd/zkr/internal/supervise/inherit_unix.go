//go:build unix

package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// inherited reports whether a descriptor is open, and not one that this process has opened itself.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

func keepFromChild(file *os.File) { unix.CloseOnExec(int(file.Fd())) }
