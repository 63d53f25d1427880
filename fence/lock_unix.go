//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile locks path until the file is closed or the process ends. The file is never removed, because a process
// that has it open would then hold a lock that other processes do not see.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

// copyAccess gives a file the owner, group and mode bits of another.
func copyAccess(from os.FileInfo, to *os.File) error {
	want, ok := from.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.ErrUnsupported
	}
	has, err := to.Stat()
	if err != nil {
		return err
	}
	if is, ok := has.Sys().(*syscall.Stat_t); !ok || is.Uid != want.Uid || is.Gid != want.Gid {
		if err := to.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return err
		}
	}
	if has.Mode().Perm() == from.Mode().Perm() {
		return nil
	}
	return to.Chmod(from.Mode().Perm())
}
