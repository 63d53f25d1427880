//go:build unix && !linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock runs on while the machine is suspended: so does the monotonic clock here.
func bootClock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Since(started)
	}
	return time.Duration(t.Nano())
}

var started = time.Now()
