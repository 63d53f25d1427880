package fence

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errorSharingViolation is ERROR_SHARING_VIOLATION: another process has the file open.
const errorSharingViolation = syscall.Errno(32)

// lockFile locks path until the file is closed or the process ends, by opening it without sharing.
func lockFile(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const shareNothing = 0
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, shareNothing, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if errors.Is(err, errorSharingViolation) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return os.NewFile(uintptr(handle), path), nil
}

// copyAccess does nothing: files get their access from the directory.
func copyAccess(os.FileInfo, *os.File) error { return nil }
