package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The lag is a tick and a half, at most a quarter of the timeout, and never less than half a tick.
func TestLag(t *testing.T) {
	const timeout = 8 * time.Second
	for tick, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Second: 1500 * time.Millisecond, 2 * time.Second: 2 * time.Second,
		6 * time.Second: 3 * time.Second,
	} {
		require.Equal(t, want, Terms{Tick: tick}.lag(timeout), "%v", tick)
	}
}
