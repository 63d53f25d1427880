package session

import (
	"fmt"
	"time"
)

// withReason adds to the end of a context what was in the way.
func withReason(cause, reason error) error {
	if reason == nil {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, reason)
}

// Explain adds to the cause of a context why the session is not connected, if it is not.
func (s *session) Explain(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return withReason(cause, s.inTheWay())
}

// inTheWay returns why there is no connection; nil if there is one. Called with mu held.
func (s *session) inTheWay() error {
	if s.isUp() {
		return nil
	}
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return s.core.obstacle()
}

// ExplainUnanswered is Explain for a caller that waits for an answer: if the session is connected, that is what is missing.
func (s *session) ExplainUnanswered(cause error) error {
	s.mu.Lock()
	c, up, newest := s.connection, s.isUp(), s.answer.at
	s.mu.Unlock()
	if !up {
		return s.Explain(cause)
	}
	return withReason(cause, fmt.Errorf("no answer from %s, which last answered %v ago", c.server, rounded(time.Since(newest))))
}

// obstacle returns why there is no connection. Called with mu held.
func (c *core) obstacle() error {
	switch {
	case c.lastErr != nil:
		return c.lastErr
	case c.trying != "":
		return fmt.Errorf("no answer from %s yet", c.trying)
	default:
		return nil
	}
}

// tries notes that a server is about to be dialed.
func (c *core) tries(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = server
}
