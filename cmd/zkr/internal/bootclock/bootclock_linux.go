package bootclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is a clock that runs on while the machine is suspended.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

var started = time.Now()
