package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// The log has the keys that package conn documents.

// transit applies the event e to the state. It returns a function that logs the change, which must be called without
// holding a lock.
func (c *core) transit(e event, in lifetime.Report, more ...any) (log func()) {
	from, to := c.states.apply(e, in)
	if from == to {
		return func() {}
	}
	write, message := c.opts.Log.Info, "zookeeper: "+to.state.String()
	if to.state == zkrecipes.Lost {
		write, message = c.opts.Log.Warn, "zookeeper: session lost"
	}
	var attrs []any
	if in.Server != "" {
		attrs = append(attrs, "server", in.Server)
	}
	if in.Session != 0 {
		attrs = append(attrs, "session", fmt.Sprintf("0x%x", uint64(in.Session)))
	}
	attrs = append(attrs, more...)
	cause := in.Err
	if lost := (*zkrecipes.LostError)(nil); errors.As(cause, &lost) {
		cause = lost.Err // the reason is among the attributes
	}
	if cause != nil {
		attrs = append(attrs, "error", cause)
	}
	attrs = append(attrs, "was", from.state.String(), "lasted", link.Rounded(to.at.Sub(from.at)))
	return func() { write(message, attrs...) }
}

// attempts are the failed attempts to connect since a session was up.
type attempts struct {
	failed   int
	first    time.Time
	next     time.Time     // when to log one at level Info again
	distance time.Duration // between the latest two of those
}

// The first failed attempt is logged at level Info, and then one after each distance, which doubles. All others are
// logged at level Debug.
const (
	shortestDistance = time.Second
	longestDistance  = 5 * time.Minute
)

// logAttempt logs that an attempt to connect has failed.
func (c *core) logAttempt(server string, err error) {
	write, now := c.opts.Log.Debug, time.Now()
	c.mu.Lock()
	a := &c.attempts
	if a.failed == 0 {
		a.first = now
	}
	a.failed++
	if !now.Before(a.next) {
		write = c.opts.Log.Info
		a.distance = min(max(2*a.distance, shortestDistance), longestDistance)
		a.next = now.Add(a.distance)
	}
	failed, first := a.failed, a.first
	c.mu.Unlock()
	write("zookeeper: cannot connect", "server", server, "error", err, "attempts", failed,
		"for", link.Rounded(now.Sub(first)))
}
