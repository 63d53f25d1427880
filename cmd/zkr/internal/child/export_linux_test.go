package child

import "golang.org/x/sys/unix"

// LookAgain is for hosts that drop privileges, as only those of tests do.
func LookAgain() { canConfine = !has(unix.CAP_SETUID) }
