package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// orphan is a session that ended here while the servers may still keep it. Its nodes stay until it is closed or expires
// there. All its holds have ended, so it is safe to close it at once, and the waiters behind its nodes need not wait
// until it expires.
//
// Source: a restarted ensemble gives every session a full timeout; a client with id and password may close a session.
type orphan struct {
	id       int64
	password []byte
}

// noteOrphan examines a session that has ended here. If it ended because nothing was answered, it is closed when the
// next session is up, since then there is a server. If its credentials were rejected, it is closed immediately: there
// is a server now, and there may be no next session.
func (c *core) noteOrphan(s *session.Session) {
	reason, id, password := s.Remains()
	if id == 0 {
		return // no server has granted the session
	}
	left := orphan{id, password}
	switch reason {
	case zkrecipes.LossDeadline:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.orphans = append(c.orphans, left)
	case zkrecipes.LossRefused:
		c.wg.Go(func() { c.closeOrphan(left) })
	default: // the servers have ended it, or are being notified
	}
}

// closeOrphan asks one server after another to close the session, until one reports that it is gone. It goes on while the
// client is being closed: often the loss of that session is why.
func (c *core) closeOrphan(left orphan) {
	var errs []error
	for _, server := range c.hosts.order() {
		err := c.closeOrphanAt(server, left)
		if err == nil {
			return
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	c.opts.Log.Debug("zookeeper: could not close an old session, its nodes remain until it expires",
		"session", fmt.Sprintf("0x%x", uint64(left.id)), "error", errors.Join(errs...))
}

// closeOrphanAt closes the session at a server; see [link.CloseSession].
func (c *core) closeOrphanAt(server lifetime.Server, left orphan) error {
	ctx, cancel := context.WithTimeout(c.patience, c.ensemble.ConnectTimeout())
	defer cancel()
	raw, err := c.opts.Dial(ctx, server)
	if err != nil {
		return err
	}
	return link.CloseSession(ctx, raw, left.id, left.password)
}
