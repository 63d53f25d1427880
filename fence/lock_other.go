//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package fence

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lockFile always fails, because a file that two processes share unknowingly protects nothing.
func lockFile(path string) (*os.File, error) {
	return nil, fmt.Errorf("lock %s on %s: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

func copyAccess(os.FileInfo, *os.File) error { return errors.ErrUnsupported }
