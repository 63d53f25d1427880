package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// orphan is a session that ended here while the servers may still keep it. Its nodes stay until it is closed or expires
// there. All holds on it ended long ago, so the waiters behind its nodes need not wait for that.
//
// Source: a restarted ensemble gives every session a full timeout; a client with id and password may close a session.
type orphan struct {
	id       int64
	password []byte
}

// noteOrphan looks at a session that has ended here. If nothing was answered any more, it is closed when the next session is
// up, since then there is a server. If its credentials were refused, it is closed at once: there is a server now, and there
// may be no next session.
func (c *core) noteOrphan(s *session) {
	s.mu.Lock()
	reason, left := s.lost.Reason, orphan{s.id, s.password}
	s.mu.Unlock()
	switch reason {
	case zkrecipes.LossDeadline:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.orphans = append(c.orphans, left)
	case zkrecipes.LossRefused:
		c.wg.Go(func() {
			// Close may be what comes next, and waits for it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
			defer cancel()
			c.closeOrphan(ctx, left)
		})
	default: // the servers have ended it, or are being told to
	}
}

// closeOrphan asks one server after the other to close the session, until one says that it is gone.
func (c *core) closeOrphan(ctx context.Context, left orphan) {
	var errs []error
	for _, server := range c.hosts.order() {
		err := c.closeOrphanAt(ctx, server, left)
		if err == nil {
			return
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	c.opts.Log.Debug("zookeeper: could not close an old session, its nodes stay until it expires",
		"session", fmt.Sprintf("0x%x", left.id), "error", errors.Join(errs...))
}

// closeOrphanAt resumes the session and closes it, in one write. It returns nil if the server says that it has closed the
// session, or that there is none. If the server hangs up without an answer, the session may still be there.
func (c *core) closeOrphanAt(ctx context.Context, server Server, left orphan) error {
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout())
	defer cancel()
	raw, err := c.dial(ctx, server)
	if err != nil {
		return err
	}
	defer hangUp(raw)
	defer context.AfterFunc(ctx, func() { hangUp(raw) })()
	end := wire.CloseFrame()
	wire.SetXid(end, 1)
	if err := writeAll(raw, wire.ConnectFrame(0, time.Second, left.id, left.password), end); err != nil {
		return err
	}
	return awaitClosed(raw)
}

// awaitClosed reads the answers to a connect request and to a close request.
func awaitClosed(raw net.Conn) error {
	frame, err := readFrame(raw, wire.MaxConnectReply)
	if err != nil {
		return err
	}
	if g, err := wire.ConnectReply(frame); g.ID == 0 {
		return err // or there is no such session any more
	}
	if frame, err = readFrame(raw, wire.MaxConnectReply); err != nil {
		return err
	}
	h, _, err := wire.ReadHeader(frame)
	return errors.Join(err, wire.ErrorOf(h.Code))
}
