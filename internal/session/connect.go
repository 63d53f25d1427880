package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// run connects to one server after the other until the session is over.
func (s *session) run() {
	for s.pace.wait(s.ctx) == nil {
		// Counted as failed until a connection has lasted: a server that accepts and hangs up is paced like one that is down.
		s.pace.failed()
		server := s.hosts.next()
		if err := s.serve(server); err != nil {
			s.core.connectFailed(fmt.Errorf("connect to %s: %w", server, err))
		}
	}
}

// serve sees to one connection from its dial to its end. An error says why the server did not give us the session.
func (s *session) serve(server string) error {
	limit := s.core.connectTimeout()
	start := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	raw, err := s.core.dial(ctx, server)
	cancel()
	if err != nil {
		return err
	}
	l := newLink(s, raw, server, limit-time.Since(start))
	sent := l.prepare(s.connectFrame())
	if !s.attach(l) {
		return l.Close() // nothing was sent on it
	}
	s.asks(sent)
	var writer sync.WaitGroup
	writer.Go(l.write)
	l.start()
	err = s.handshake(l)
	if err == nil {
		err = l.read()
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server hung up: %w", err)
	}
	l.fail(err)
	writer.Wait()
	if l.up.Load() {
		return nil
	}
	return l.reason()
}

// dial opens a connection to a server.
func (c *core) dial(ctx context.Context, server string) (net.Conn, error) {
	raw, err := c.opts.Dial(ctx, "tcp", server)
	if err == nil && raw == nil {
		err = errors.New("the function given to WithDialer returned neither a connection nor an error")
	}
	return raw, err
}

// connectTimeout bounds one attempt to connect. By default it comes from the timeout that the servers grant, which may be
// far below what was asked for: a server that accepts and does not answer must not cost the session.
func (c *core) connectTimeout() time.Duration {
	if d := c.opts.ConnectTimeout; d > 0 {
		return d
	}
	return max(time.Second, c.timeout()/6)
}

// timeout returns the session timeout that the servers grant, or what was asked for while that is not known.
func (c *core) timeout() time.Duration {
	return cmp.Or(time.Duration(c.granted.Load()), c.opts.SessionTimeout)
}
