//go:build unix && !linux

package bootclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of a clock that advances while the machine is suspended. On these systems, that is the monotonic
// clock.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

var started = time.Now()
