package session

import (
	"context"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// Run connects to one server after the other until the session ends.
func (s *session) Run() {
	for s.pauses.wait(s.ctx) == nil {
		// A round counts as failed until one of its connections has lasted, so that servers which accept and hang up are not
		// dialed without a pause.
		s.pauses.failed()
		s.goRound()
	}
}

// goRound tries each address of the servers once. It ends when a connection that has lasted is gone: the next round begins at
// once, and looks up the names again.
func (s *session) goRound() {
	for server := range s.owner.Servers(s.ctx) {
		if err := s.serve(server); err != nil && !s.ended() { // else the end says why
			s.owner.Failed(server.String(), err)
		}
		if s.pauses.none() {
			return
		}
	}
}

// serve dials a server and runs the connection until it ends. An error says why the server did not give us the session.
func (s *session) serve(server Server) error {
	dial := func(ctx context.Context) (net.Conn, error) { return s.ensemble.Dial(ctx, server) }
	c, err := link.Dial(s.ctx, s.ensemble.ConnectTimeout(), server.String(), dial, owner{s})
	if err != nil {
		return err
	}
	sent := c.Prepare(s.connectFrame())
	if !s.attach(c) {
		c.Drop() // nothing was sent: a server that is reached after the end gets no session to keep
		return nil
	}
	s.resuming(sent)
	return c.Serve(func() error { return s.handshake(c, sent) })
}

// attach makes c the session's connection. It reports false if the session has ended.
func (s *session) attach(c *link.Connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return false
	}
	s.connection = c
	return true
}

// connectionUp lets operations through, and fires every watch: the server does not report what happened while there was no
// connection.
func (s *session) connectionUp() {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	close(s.up)
	s.down = make(chan struct{})
	s.hurryBarrier()
	s.wakeHeartbeat()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	// Within the lock, here and in connectionDown, so that all learn of the facts in their order. A writer may already find that
	// the connection is gone. And a caller that finds a live session gets a watch or a feed after this, not before.
	s.ensemble.accepted()
	log := s.owner.Up(s.report(nil))
	s.watches.fireAll()
	s.tell(News{Kind: Up})
	s.mu.Unlock()
	log()
}

// Disconnected returns a channel that is closed when the connection is lost. If there is no connection, it is closed
// already.
func (s *session) Disconnected() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// Heard returns when the newest request was sent that a server has answered.
func (s *session) Heard() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upkeep.Heard()
}

// heardOn is Heard for the connection whose end closes down; zero if another one has come up since.
func (s *session) heardOn(down <-chan struct{}) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != down:
		return time.Time{}
	case s.isUp():
		return s.upkeep.Heard()
	default:
		return s.heardLast
	}
}

// isUp is called with mu held.
func (s *session) isUp() bool {
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

// upConnection returns the connection if it is up and the session has not ended, else nil.
func (s *session) upConnection() *link.Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || !s.isUp() {
		return nil
	}
	return s.connection
}

// connectionDown is called for every connection that closes, also more than once.
func (s *session) connectionDown(c *link.Connection) {
	if c.Lasted() {
		s.pauses.succeeded()
	}
	s.mu.Lock()
	if s.connection != c || !s.isUp() {
		s.mu.Unlock()
		return
	}
	s.up = make(chan struct{})
	s.heardLast = s.upkeep.Heard()
	close(s.down)
	// Within the lock: nothing that was heard on a later connection can come before this.
	s.tell(News{Kind: Down, Heard: s.upkeep.Heard()})
	s.upkeep.SyncDone()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	notices := s.collect(lost(zkrecipes.LossSuspended, time.Now(), nil), func(sub *lossCallback) bool { return sub.onSuspend })
	log := s.owner.Down(s.report(c.Reason()))
	s.mu.Unlock()
	notices.deliver()
	log()
}
