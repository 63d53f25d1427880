package session

import (
	"context"
	"time"
)

// Sleep waits for d, or for the end of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return causeOf(ctx)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return causeOf(ctx)
	}
}
