package health

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProbe_Watch: a starting program is given time, and a serving one is given the configured number of consecutive
// failures.
func TestProbe_Watch(t *testing.T) {
	sick := errors.New("sick")
	for name, c := range map[string]struct {
		passes func(check int) bool
		start  time.Duration
		after  time.Duration // 0 means never unhealthy
	}{
		"healthy":                     {func(int) bool { return true }, time.Minute, 0},
		"slow to start":               {func(n int) bool { return n > 30 }, time.Minute, 0},
		"never starts":                {func(int) bool { return false }, time.Minute, time.Minute},
		"never starts, without end":   {func(int) bool { return false }, 0, 0},
		"two failures now and then":   {func(n int) bool { return n%3 == 0 }, time.Minute, 0},
		"three failures in a row":     {func(n int) bool { return n < 10 }, time.Minute, 12 * time.Second},
		"three after a slow start":    {func(n int) bool { return n == 30 }, time.Minute, 33 * time.Second},
		"the start is over meanwhile": {func(n int) bool { return n < 100 }, time.Minute, 102 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				checks, began := -1, time.Now()
				p := &Probe{
					Interval: time.Second, Timeout: time.Second, Failures: 3, Start: c.start,
					Check: func(context.Context) error {
						if checks++; c.passes(checks) {
							return nil
						}
						return sick
					},
				}
				err := p.Watch(ctx)
				if c.after == 0 {
					require.NoError(t, err)
					require.Equal(t, time.Hour, time.Since(began))
					return
				}
				require.ErrorIs(t, err, sick)
				require.Equal(t, c.after, time.Since(began))
			})
		})
	}
}

// TestProbe_ACheckThatHangs: a check fails at its timeout. The end of the watch also ends the check, but proves nothing
// about the program.
func TestProbe_ACheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		p := &Probe{Interval: time.Second, Timeout: 2 * time.Second, Failures: 2, Check: func(ctx context.Context) error {
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			hangs = true
			return nil
		}}
		began := time.Now()
		require.ErrorIs(t, p.Watch(t.Context()), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, p.Watch(ctx))
	})
}
