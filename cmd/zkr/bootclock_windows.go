package main

import (
	"time"

	"golang.org/x/sys/windows"
)

// bootClock runs on while the machine is suspended.
func bootClock() time.Duration { return windows.DurationSinceBoot() }
