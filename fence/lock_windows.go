package fence

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errorSharingViolation is ERROR_SHARING_VIOLATION: somebody has the file open.
const errorSharingViolation = syscall.Errno(32)

// lockFile locks path, by sharing it with nobody, until the file is closed or the process ends.
func lockFile(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const shareNothing = 0
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, shareNothing, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return os.NewFile(uintptr(handle), path), nil
}
