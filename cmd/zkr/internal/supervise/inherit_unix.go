//go:build unix

package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

func keepFromChild(file *os.File) { unix.CloseOnExec(int(file.Fd())) }
