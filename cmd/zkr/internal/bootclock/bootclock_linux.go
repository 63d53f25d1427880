package bootclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of a clock that advances while the machine is suspended.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

var started = time.Now()
