package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
)

// core is what a client and the clients made by its Sub share: the sequence of sessions.
type core struct {
	opts   *Config
	log    *logQueue
	ctx    context.Context // ends with the client
	stop   context.CancelFunc
	states *stateLog
	hosts  *hosts

	noContainers     atomic.Bool
	containerHangups atomic.Int32 // connections in a row that ended under createContainer and made no node
	removalsLost     atomic.Int32 // connections in a row that ended under removeWatches: perhaps the server does not know the request

	wg sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	session    *session      // the newest
	changed    chan struct{} // closed, and replaced, when a session comes up or ends
	lastErr    error         // why the last attempt to connect, or the last connection, failed; nil while there is a session
	trying     string        // the server of the newest attempt
	trouble    trouble       // the newest
	lastAnswer lastAnswer    // the newest of the sessions before
	attempts   attempts      // that failed since a session was up
	orphans    []orphan
	claims     map[string]*Claim
	shared     map[string]any
	hangups    time.Time // when a server first hung up since a session was up; zero if none has

	granted atomic.Int64 // the newest session timeout
}

// start runs f on a goroutine that Close waits for; false once the client is closed.
func (c *core) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// open makes the next session. It reports false once the client is closed.
func (c *core) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	s := newSession(c)
	if before := c.session; before != nil {
		s.zxid.Store(before.zxid.Load())
	}
	c.session = s
	c.wg.Go(s.run)
	return true
}

// run opens a session after each that has ended.
func (c *core) run() {
	pauses := newPauses(c.newBackOff)
	brief := false // the last session ended soon after it came up
	for {
		c.mu.Lock()
		s := c.session
		c.mu.Unlock()
		<-s.done
		c.noteOrphan(s) // before the next session can come up, since that is when orphans are closed
		switch lived := s.lifetime(); {
		case lived > s.Timeout() && lived > time.Second:
			pauses.succeeded()
			brief = false
		case lived > 0 && !brief:
			brief = true // the first brief session costs no pause, the second in a row does
		default:
			pauses.failed()
		}
		if pauses.wait(c.ctx) != nil {
			return
		}
		if !c.open() {
			return
		}
	}
}

// sessionUp wakes the callers that wait for a session, and closes the orphaned sessions.
func (c *core) sessionUp() {
	c.mu.Lock()
	c.lastErr, c.trying, c.hangups, c.attempts = nil, "", time.Time{}, attempts{}
	c.broadcast()
	orphans := c.orphans
	c.orphans = nil
	c.mu.Unlock()
	for _, left := range orphans {
		c.start(func() { c.closeOrphan(c.ctx, left) })
	}
}

// refused notes that a server has hung up on a connect request.
func (c *core) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hangups.IsZero() {
		c.hangups = time.Now()
	}
}

// refusedFor returns for how long servers have hung up on connect requests.
func (c *core) refusedFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hangups.IsZero() {
		return 0
	}
	return time.Since(c.hangups)
}

// sessionEnded wakes the callers that wait for the next session, and moves the state. A session that never came up was an
// attempt that failed.
func (c *core) sessionEnded(s *session, why *zkrecipes.LostError) {
	s.mu.Lock()
	newest, in, wasUp := s.lastAnswer, s.circumstancesLocked(why), !s.since.IsZero()
	s.mu.Unlock()
	if !wasUp && why.Reason != zkrecipes.LossClosed {
		c.logAttempt(in.server, why) // before Dial learns of it, and closes the client
	}
	c.mu.Lock()
	if !newest.at.IsZero() {
		c.lastAnswer = newest
	}
	if why.Reason != zkrecipes.LossClosed {
		c.failed(why)
	}
	switch { // what is in the way of calls that wait for the next session; it must not match the loss of this one
	case why.Reason == zkrecipes.LossRefused:
		c.lastErr = why.Err
	case why.Reason == zkrecipes.LossExpired && wasUp:
		c.lastErr = fmt.Errorf("connection to %s: the session has expired", in.server)
	case why.Reason == zkrecipes.LossExpired:
		c.lastErr = fmt.Errorf("connect to %s: the server has ended the new session at once", in.server)
	}
	c.broadcast()
	c.mu.Unlock()
	if wasUp && why.Reason != zkrecipes.LossClosed {
		c.transit(ended, in, "reason", why.Reason.String())()
	}
}

// connectFailed notes why a server gave no session. Refused credentials, which the end of their session notes, stay the reason
// until a session is up.
func (c *core) connectFailed(server string, err error) {
	c.logAttempt(server, err)
	err = fmt.Errorf("connect to %s: %w", server, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed(err)
	if !errors.Is(c.lastErr, ErrAuthFailed) {
		c.lastErr = err
	}
}

// connectionFailed notes why a connection that was up is gone.
func (c *core) connectionFailed(gone *link.Connection) {
	err := fmt.Errorf("connection to %s: %w", gone.Server(), gone.Reason())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = err
	c.failed(err)
}

// failed notes a failure. Called with mu held.
func (c *core) failed(err error) { c.trouble = trouble{err, time.Now()} }

// broadcast wakes the callers that wait for a session. Called with mu held.
func (c *core) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}
