package session

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// longestPause is the longest pause of the default policy, and the pause of a policy that only says stop, with a negative pause.
const longestPause = 5 * time.Second

// pauses says when the next attempt may start: the first at once, each later one after a pause. For a session, an attempt is a
// round over all servers.
type pauses struct {
	newBackOff func() backoff.BackOff

	mu      sync.Mutex
	backOff backoff.BackOff // nil before the first pause
	due     bool            // an attempt has failed
}

func newPauses(newBackOff func() backoff.BackOff) *pauses {
	return &pauses{newBackOff: newBackOff}
}

func (p *pauses) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
}

func (p *pauses) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = false
	p.backOff = nil
}

// none reports that the next attempt may start at once.
func (p *pauses) none() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.due
}

// pause returns how long to wait before the next attempt.
func (p *pauses) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.due {
		return 0
	}
	if p.backOff != nil {
		if d := p.backOff.NextBackOff(); d >= 0 {
			return d
		}
	}
	p.backOff = p.newBackOff()
	if d := p.backOff.NextBackOff(); d >= 0 {
		return d
	}
	return longestPause // the policy says nothing but Stop
}

func (p *pauses) wait(ctx context.Context) error { return Sleep(ctx, p.pause()) }

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
