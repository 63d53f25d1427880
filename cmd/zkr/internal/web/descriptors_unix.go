//go:build unix

package web

import "syscall"

// descriptors returns how many files and connections this process may have open.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 256
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on BSD
}
