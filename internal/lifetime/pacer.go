package lifetime

import (
	"context"
	"sync"
	"time"
)

// longestPause is the longest pause of the default policy, and the one used with a policy that returns only Stop, a
// negative pause.
const longestPause = 5 * time.Second

// BackOff is conn.BackOff.
type BackOff interface{ NextBackOff() time.Duration }

// newBackOff returns a policy for the pauses between rounds.
func (l *Lifetime) newBackOff() BackOff {
	if l.opts.NewBackOff != nil {
		return l.opts.NewBackOff()
	}
	return hurried{l.ensemble.NewBackOff(), l}
}

// hurried halves the pauses while there are holds, since their time is running out. The pauses still vary as much from
// client to client, so that the clients of a recovered server do not all connect at once.
type hurried struct {
	BackOff
	lifetime *Lifetime
}

// NextBackOff returns the pause of the policy, or half of it.
func (h hurried) NextBackOff() time.Duration {
	d := h.BackOff.NextBackOff()
	if h.lifetime.Report().Holds > 0 {
		return d / 2
	}
	return d
}

// Pacer determines when the next attempt may start: the first immediately, each later one after a pause. For a session,
// an attempt is a round over all servers.
type Pacer struct {
	newBackOff func() BackOff

	mu      sync.Mutex
	backOff BackOff // nil before the first pause
	failed  bool    // since the latest success
}

// NewPacer returns a pacer whose first attempt may start immediately.
func NewPacer(newBackOff func() BackOff) *Pacer {
	return &Pacer{newBackOff: newBackOff}
}

// Failed records that an attempt has failed.
func (p *Pacer) Failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
}

// Succeeded records that an attempt has succeeded, so that the next one may start immediately.
func (p *Pacer) Succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = false
	p.backOff = nil
}

// immediate reports whether the next attempt may start immediately.
func (p *Pacer) immediate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.failed
}

// pause returns how long to wait before the next attempt.
func (p *Pacer) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed {
		return 0
	}
	d := p.next()
	if d < 0 {
		p.backOff = p.newBackOff()
		d = p.next()
	}
	if d < 0 {
		return longestPause // the policy returns only Stop, or is nil
	}
	return d
}

// next returns the next pause of the policy; negative if there is none. The caller holds mu.
func (p *Pacer) next() time.Duration {
	if p.backOff == nil {
		return -1
	}
	return p.backOff.NextBackOff()
}

// Wait waits until the next attempt may start, or ctx is done. Errors: ctx.Err().
func (p *Pacer) Wait(ctx context.Context) error {
	if d := p.pause(); d > 0 {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
