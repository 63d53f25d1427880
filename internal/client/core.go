package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/root"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// core is what a client and the clients created by its Sub share: the sequence of sessions.
type core struct {
	opts *Config
	log  *logQueue
	ctx  context.Context // ends with the client
	stop context.CancelFunc
	// Ends when the client being closed must not wait for the servers any more.
	patience context.Context
	hurry    context.CancelFunc
	states   *stateLog
	hosts    *hosts

	ensemble *session.Ensemble

	wg sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	session    *session.Session // the latest
	earlier    []int64          // the sessions before it, up to maxEarlier
	changed    chan struct{}    // closed, and replaced, when a session comes up or ends, or a claim changes
	lastErr    error            // why the last connection or attempt to connect failed; nil while connected
	refused    error            // why the session that all servers rejected ended; nil once one has come up
	trying     string           // the server of the latest attempt
	trouble    trouble          // the latest
	lastAnswer lifetime.Answer  // the latest one of the earlier sessions
	attempts   attempts         // those that failed since a session was up
	orphans    []lifetime.Remains
	claims     map[string]*Claim
}

// maxEarlier bounds how many sessions a client remembers. Of that many, the servers have ended all but the last few.
const maxEarlier = 64

// Start runs f with ctx on a goroutine that Close waits for. It reports false once the client is closed.
func (c *core) Start(ctx context.Context, f func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	go c.do(ctx, f)
	return true
}

// do runs f for Start.
func (c *core) do(ctx context.Context, f func(context.Context)) {
	defer c.wg.Done()
	f(ctx)
}

// close closes the client, and waits for everything that it has started. It notifies the servers until patience ends,
// for at most a second.
func (c *core) close(patience context.Context) {
	c.mu.Lock()
	c.closed = true
	s := c.session
	// The session may have ended, and then nothing else wakes the callers that wait for the next.
	c.broadcast()
	c.mu.Unlock()
	s.Close()
	last := s.Report()
	last.Err = nil
	c.transit(closed, last, "reason", zkrecipes.LossClosed.String())()
	c.stop()
	patience, cancel := context.WithTimeout(patience, time.Second)
	defer cancel()
	defer context.AfterFunc(patience, func() { // by now the request to close the session has been sent
		c.hurry()
		s.Drop()
	})()
	c.wg.Wait()
	c.log.flush()
}

// open creates the next session. It reports false once the client is closed.
func (c *core) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	var zxid int64
	if before := c.session; before != nil { // it has ended, so it does not call the client with its lock held
		zxid = before.Zxid()
		if id := before.ID(); id != 0 { // 0 is an attempt without a session, and the owner of persistent nodes
			c.earlier = append(c.earlier, id)
			c.earlier = c.earlier[max(0, len(c.earlier)-maxEarlier):]
		}
	}
	c.session = session.New(c.ctx, c, c.ensemble, zxid)
	c.wg.Go(c.session.Run)
	return true
}

// run opens the next session whenever one has ended.
func (c *core) run() {
	pauses := lifetime.NewPacer(c.ensemble.NewBackOff)
	brief := false // whether the last session ended soon after it came up
	for {
		c.mu.Lock()
		s := c.session
		c.mu.Unlock()
		<-s.Done()
		// Before the next session can come up, since that is when orphans are closed.
		c.noteOrphan(s)
		switch lived := s.Lived(); {
		case lived > s.Timeout() && lived > time.Second:
			pauses.Succeeded()
			brief = false
		case lived > 0 && !brief:
			brief = true // the first brief session costs no pause, the second in a row does
		default:
			pauses.Failed()
		}
		if pauses.Wait(c.ctx) != nil {
			return
		}
		if !c.open() {
			return
		}
	}
}

// Up wakes the callers that wait for a session, and closes the orphaned sessions.
func (c *core) Up(now lifetime.Report) (log func()) {
	more := []any{"timeout", now.Timeout}
	if c.opts.SASL != nil {
		more = append(more, "sasl", identity{c.opts.SASL})
	}
	c.hosts.gave()
	log = c.transit(established, now, more...)
	c.mu.Lock()
	c.lastErr, c.refused, c.trying, c.attempts = nil, nil, "", attempts{}
	c.broadcast()
	orphans := c.orphans
	c.orphans = nil
	c.mu.Unlock()
	for _, left := range orphans {
		c.wg.Go(func() { // even if the client is being closed: that waits for the caller
			c.awaitClaims() // a kept node replaces that of the old session in one transaction
			c.closeOrphan(left)
		})
	}
	return log
}

// identity is the value of an attribute of a log record. The mechanism is the user's, so its name is asked for only
// when the record is written, without the session's lock.
type identity struct{ sasl.Mechanism }

func (i identity) LogValue() slog.Value { return slog.StringValue(i.String()) }

// Down records why a connection that was up is lost.
func (c *core) Down(now lifetime.Report) (log func()) {
	err := fmt.Errorf("connection to %s: %w", now.Server, now.Err)
	c.hosts.lost(now.Err)
	if !errors.Is(now.Err, lifetime.ErrMoves) { // a client that has moved stays at its new server
		c.hosts.draw()
	}
	c.mu.Lock()
	c.lastErr = session.AsReason(err)
	c.failed(err)
	c.mu.Unlock()
	var left []any
	if now.Holds > 0 {
		left = []any{"holds", now.Holds, "left", link.Rounded(time.Until(now.ValidUntil))}
	}
	return c.transit(disconnected, now, left...)
}

// Ended wakes the callers that wait for the next session, and moves the state. A session that never came up counts as a
// failed attempt.
func (c *core) Ended(why *zkrecipes.LostError, last lifetime.Report) {
	last.Err = why
	// Failed has been called with a refusal.
	if !last.WasUp && why.Reason != zkrecipes.LossClosed && why.Reason != zkrecipes.LossRefused {
		c.logAttempt(last.Server, why) // before Dial learns of it and closes the client
	}
	c.mu.Lock()
	if !last.LastAnswer.IsZero() {
		c.lastAnswer = last.Answer
	}
	if why.Reason != zkrecipes.LossClosed {
		c.failed(why)
	}
	// The reason given to calls that wait for the next session; it must not match the loss of this one.
	switch {
	case why.Reason == zkrecipes.LossRefused:
		c.lastErr, c.refused = why.Err, why.Err
	case why.Reason == zkrecipes.LossExpired && last.WasUp:
		c.lastErr = fmt.Errorf("connection to %s: the session has expired", last.Server)
	case why.Reason == zkrecipes.LossExpired:
		c.lastErr = fmt.Errorf("connect to %s: the server ended the new session immediately", last.Server)
	}
	c.broadcast()
	c.mu.Unlock()
	if last.WasUp && why.Reason != zkrecipes.LossClosed {
		c.transit(ended, last, "reason", why.Reason.String())()
	}
}

// Failed records why a server did not give us the session. Rejected credentials remain the reason until a session is
// up.
func (c *core) Failed(server string, err error) {
	c.logAttempt(server, err)
	err = fmt.Errorf("connect to %s: %w", server, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed(err)
	if !errors.Is(c.lastErr, zkrecipes.ErrAuthFailed) || errors.Is(err, zkrecipes.ErrAuthFailed) {
		c.lastErr = session.AsReason(err)
	}
}

// failed records a failure. The caller holds mu.
func (c *core) failed(err error) { c.trouble = trouble{err, time.Now()} }

// broadcast wakes the callers that wait for a session or for claims. The caller holds mu.
func (c *core) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// WhyDisconnected returns why the client is not connected, or nil if it is.
func (c *core) WhyDisconnected() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whyDisconnected()
}

// whyDisconnected returns why the client is not connected, or nil if it is. The caller holds mu.
func (c *core) whyDisconnected() error {
	switch {
	case c.lastErr != nil:
		return c.lastErr
	case c.trying != "":
		return fmt.Errorf("no answer from %s yet", c.trying)
	default:
		return nil
	}
}

// tries records that a server is about to be dialed.
func (c *core) tries(server lifetime.Server) {
	c.hosts.tries(server)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = server.String()
}

// rootKey is the root of a client's paths. Two are equal if their clients share a connection and a chroot.
type rootKey struct {
	core *core
	paths.Chroot
}

// Root returns the root of this client's paths.
func (c *Client) Root() zkrecipes.Root { return c.core.Root(c.chroot) }

// Root returns the root of the paths below a chroot.
func (c *core) Root(at paths.Chroot) zkrecipes.Root {
	return zkrecipes.Root(root.New(rootKey{c, at}))
}

// String names the servers, the node and the session.
func (r rootKey) String() string {
	c := &Client{core: r.core}
	return fmt.Sprintf("%s%s in session 0x%x", strings.Join(r.core.hosts.list(), ","), r.Abs("/"),
		uint64(c.Status().Session))
}
