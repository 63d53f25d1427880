//go:build unix && !linux

package child

import "time"

// alarm does nothing on these systems: a stopped process stays stopped.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) ring(time.Duration, time.Duration) error { return nil }
