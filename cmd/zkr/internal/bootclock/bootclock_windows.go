package bootclock

import (
	"time"

	"golang.org/x/sys/windows"
)

// Now returns the time of a clock that advances while the machine is suspended.
func Now() time.Duration { return windows.DurationSinceBoot() }
