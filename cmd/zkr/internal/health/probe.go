package health

import (
	"context"
	"fmt"
	"time"
)

// Probe runs a check again and again.
type Probe struct {
	Check    Check
	Interval time.Duration // between two checks
	Timeout  time.Duration // of a check
	Failures int           // so many checks in a row have to fail before the program counts as unhealthy
	Start    time.Duration // in which the check has to pass for the first time; 0 without end
}

// Once runs the check once.
func (p *Probe) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	return p.Check(ctx)
}

// Watch returns why the program is unhealthy, or nil when ctx ends. A program that starts is given until Start.
func (p *Probe) Watch(ctx context.Context) error {
	began, passed := time.Now(), false
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for failed := 0; ; {
		err := p.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // it was not the program
		case err == nil:
			failed, passed = 0, true
		case passed:
			if failed++; failed >= p.Failures {
				return err
			}
		case p.Start > 0 && time.Since(began) >= p.Start:
			return fmt.Errorf("it has not passed within --check-start, %v: %w", p.Start, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
