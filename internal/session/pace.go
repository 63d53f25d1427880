package session

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// pace says when the next attempt may start: the first round over all servers at once, each later one after a pause.
type pace struct {
	round int // attempts that make a round

	mu       sync.Mutex
	backOff  backoff.BackOff
	failures int
}

func newPace(newBackOff func() backoff.BackOff, round int) *pace {
	return &pace{backOff: newBackOff(), round: round}
}

func (p *pace) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
}

func (p *pace) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = 0
	p.backOff.Reset()
}

// pause returns how long to wait before the next attempt.
func (p *pace) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 || p.failures%p.round != 0 {
		return 0
	}
	d := p.backOff.NextBackOff()
	if d == backoff.Stop {
		p.backOff.Reset()
		d = max(p.backOff.NextBackOff(), 0)
	}
	return d
}

func (p *pace) wait(ctx context.Context) error { return sleep(ctx, p.pause()) }

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
