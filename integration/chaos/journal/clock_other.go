//go:build !linux

package journal

import "time"

// Now is the wall clock, on systems whose processes share no monotonic one. It serves for compiling, not for verdicts.
func Now() int64 { return time.Now().UnixNano() }
