//go:build unix && !linux

package bootclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is a clock that advances while the machine is suspended. So does the monotonic clock here.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

var started = time.Now()
