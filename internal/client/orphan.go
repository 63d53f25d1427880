package client

import (
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// noteOrphan examines a session that has ended here. If it ended because nothing was answered, it is closed when the
// next session is up, since then there is a server. If its credentials were rejected, it is closed immediately: there
// is a server now, and there may be no next session.
func (c *core) noteOrphan(s *session.Session) {
	left := s.Remains()
	switch {
	case left.ID == 0: // no server has granted the session
	case left.Reason == zkrecipes.LossDeadline:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.orphans = append(c.orphans, left)
	case left.Reason == zkrecipes.LossRefused:
		c.wg.Go(func() { c.closeOrphan(left) })
	default: // the servers have ended it, or are being notified
	}
}

// closeOrphan asks one server after another to close the session, until one reports that it is gone. Close does not
// stop it, because programs often close a client when they lose its session.
func (c *core) closeOrphan(left lifetime.Remains) {
	var errs []error
	for _, server := range c.hosts.order() {
		err := c.ensemble.CloseSession(c.patience, server, left)
		if err == nil {
			return
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	c.opts.Log.Debug("zookeeper: could not close an old session, its nodes remain until it expires",
		"session", fmt.Sprintf("0x%x", uint64(left.ID)), "error", errors.Join(errs...))
}
