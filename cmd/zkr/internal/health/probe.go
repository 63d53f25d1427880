package health

import (
	"context"
	"fmt"
	"time"
)

// Probe runs a check repeatedly.
type Probe struct {
	Check    Check
	Interval time.Duration // between two checks
	Timeout  time.Duration // per check
	Failures int           // number of consecutive failures after which the program counts as unhealthy
	Start    time.Duration // time in which the check must pass for the first time; 0 means no limit
}

// Once runs the check once.
func (p *Probe) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	return p.Check(ctx)
}

// Watch returns the reason why the program is unhealthy, or nil when ctx ends. A starting program has until Start to
// become healthy.
func (p *Probe) Watch(ctx context.Context) error {
	began, passed := time.Now(), false
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for failed := 0; ; {
		err := p.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the program is not to blame
		case err == nil:
			failed, passed = 0, true
		case passed:
			if failed++; failed >= p.Failures {
				return err
			}
		case p.Start > 0 && time.Since(began) >= p.Start:
			return fmt.Errorf("it did not pass within --check-start, %v: %w", p.Start, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
