package client

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Claim reserves a path for one object of a client: two objects that mistook each other's node for their own would undo
// each other's work, and a node's owner only identifies the session.
type Claim struct {
	core     *core
	path     string
	before   *Claim             // of the object that was leaving; nil if there was none
	leaving  bool               // guarded by core.mu, like the next
	seenTo   *lifetime.Lifetime // see SeenTo; that of a session, whatever its chroot
	released chan struct{}      // closed when the object is done
}

// Claim claims a path. It reports false if another object has it and is not leaving.
func (c *Client) Claim(path string) (claim *Claim, ok bool) {
	path = c.Abs(path)
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	before := c.core.claims[path]
	if before != nil && !before.leaving {
		return nil, false
	}
	claim = &Claim{core: c.core, path: path, before: before, released: make(chan struct{})}
	c.core.claims[path] = claim
	return claim, true
}

// Before returns a channel that is closed when the previous object has released the path. Until then the new one must
// not use the path. The channel is nil if there was no previous object.
func (c *Claim) Before() <-chan struct{} {
	if c.before == nil {
		return nil
	}
	return c.before.released
}

// IsLeaving reports whether an object that is leaving the path has yet to release it.
func (c *Client) IsLeaving(path string) bool {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	claim := c.core.claims[c.Abs(path)]
	return claim != nil && claim.leaving
}

// AwaitRelease waits until an object that is leaving the path has released it. It does not wait if another object has
// claimed the path since.
//
// Errors: the cause of ctx.
func (c *Client) AwaitRelease(ctx context.Context, path string) error {
	c.core.mu.Lock()
	claim := c.core.claims[c.Abs(path)]
	leaving := claim != nil && claim.leaving
	c.core.mu.Unlock()
	if !leaving {
		return nil
	}
	select {
	case <-claim.released:
		return nil
	case <-ctx.Done():
		return c.Explain(context.Cause(ctx))
	}
}

// SeenTo records that the object has seen to its node in the session, whether or not it could: it no longer needs the
// node of a session before.
func (c *Claim) SeenTo(s *session.Session) {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if c.seenTo != s.Lifetime {
		c.seenTo = s.Lifetime
		c.core.broadcast()
	}
}

// awaitClaims waits until every object has seen to its node in the latest session, or the client is closed, but for a
// second at most, since others may be waiting for the end of a session before.
func (c *core) awaitClaims() {
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	for {
		c.mu.Lock()
		changed, waits := c.changed, false
		for _, claim := range c.claims {
			waits = waits || !claim.leaving && claim.seenTo != c.session.Lifetime
		}
		c.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Leave lets another object claim the path, and wait until this one releases it.
func (c *Claim) Leave() {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	c.leaving = true
	c.core.broadcast()
}

// Release ends the claim. It is called once, after the previous object has released the path.
func (c *Claim) Release() {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if c.core.claims[c.path] == c {
		delete(c.core.claims, c.path)
		c.core.broadcast()
	}
	c.before = nil
	close(c.released)
}
