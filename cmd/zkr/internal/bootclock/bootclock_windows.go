package bootclock

import (
	"time"

	"golang.org/x/sys/windows"
)

// Now is a clock that runs on while the machine is suspended.
func Now() time.Duration { return windows.DurationSinceBoot() }
