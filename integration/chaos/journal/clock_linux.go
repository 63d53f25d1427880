package journal

import "golang.org/x/sys/unix"

// Now reads CLOCK_MONOTONIC in nanoseconds. All processes share this clock, and no program can set it.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // never happens: every kernel has this clock
	}
	return ts.Nano()
}
