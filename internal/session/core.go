package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// core is what a client and its subs share.
type core struct {
	opts   *Config
	ctx    context.Context // ends with the client
	stop   context.CancelFunc
	states *stateLog

	noContainers atomic.Bool

	wg sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	session  *session      // the newest
	changed  chan struct{} // closed, and replaced, when a session is up or over
	lastErr  error         // why the last attempt to connect failed
	unburied []corpse
}

// corpse is a session that ended here while the server may still keep it.
type corpse struct {
	id       int64
	password []byte
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

// open makes the next session.
func (c *core) open() error {
	s := newSession(c)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		s.stop()
		return zkrecipes.ErrClosed
	}
	c.session = s // before it can be up: it is the one that wakes those who wait for it
	c.mu.Unlock()
	return s.connect()
}

// run retires each session that has ended and opens the next.
func (c *core) run() {
	pace := newPace(c.opts.NewBackOff, 1)
	brief := false // the last session ended soon
	for {
		c.mu.Lock()
		s := c.session
		c.mu.Unlock()
		<-s.done
		c.mourn(s) // before another session can be up, which buries it
		c.wg.Go(s.retire)
		switch lived := s.lifetime(); {
		case lived > s.Timeout() && lived > time.Second:
			pace.succeeded()
			brief = false
		case lived > 0 && !brief:
			brief = true // one is an accident, the second in a row is not
		default:
			pace.failed()
		}
		if pace.wait(c.ctx) != nil {
			return
		}
		if c.open() != nil { // closed; the library refuses no options that it took the first time
			return
		}
	}
}

// mourn notes a session that the server may still keep.
func (c *core) mourn(s *session) {
	s.mu.Lock()
	kept := s.lost.Reason == zkrecipes.LossDeadline && s.id != 0
	dead := corpse{s.id, s.password}
	s.mu.Unlock()
	if kept {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unburied = append(c.unburied, dead)
	}
}

// retire closes the library's object, which tells the server if it can, and waits for its goroutines.
func (s *session) retire() {
	s.mu.Lock()
	connected, link := s.isUp(), s.link
	s.mu.Unlock()
	joined := time.NewTimer(5 * time.Second)
	defer joined.Stop()
	if !connected {
		if link != nil {
			_ = link.Close() // whatever it was doing, it is not telling the server
		}
		select {
		case <-s.bye.greeted:
		case <-joined.C:
			joined.Reset(5 * time.Second)
		}
	}
	s.zk.Close()
	if link != nil {
		_ = link.Close() // it has told the server, or cannot
	}
	for {
		select {
		case _, ok := <-s.events:
			if !ok {
				return
			}
		case <-joined.C:
			s.core.opts.Log.Warn("zookeeper: a retired connection does not end, leaving it behind")
			return
		}
	}
}

func (c *core) sessionUp() {
	c.mu.Lock()
	c.lastErr = nil
	c.broadcast()
	unburied := c.unburied
	c.unburied = nil
	c.mu.Unlock()
	for _, corpse := range unburied {
		c.start(func() { c.bury(corpse) })
	}
}

func (c *core) sessionEnded(s *session, why *zkrecipes.LostError) {
	c.mu.Lock()
	if why.Reason == zkrecipes.LossRefused {
		c.lastErr = why.Err
	}
	c.broadcast()
	c.mu.Unlock()
	if why.Reason != zkrecipes.LossClosed {
		c.transit(ended, "session", fmt.Sprintf("0x%x", s.ID()), "reason", why.Reason, "error", why.Err)()
	}
}

func (c *core) connectFailed(err error) {
	c.mu.Lock()
	if c.lastErr == nil || !errors.Is(c.lastErr, ErrAuthFailed) {
		c.lastErr = err
	}
	c.mu.Unlock()
	c.opts.Log.Debug("zookeeper: connect", "error", err)
}

// broadcast is called with mu held.
func (c *core) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// transit moves the state by e, and returns what logs that, to be called when no lock is held.
func (c *core) transit(e event, attrs ...any) (log func()) {
	state, changed := c.states.apply(e)
	switch {
	case !changed:
		return func() {}
	case e == ended:
		return func() { c.opts.Log.Warn("zookeeper: session "+state.String(), attrs...) }
	default:
		return func() { c.opts.Log.Info("zookeeper: "+state.String(), attrs...) }
	}
}

// bury closes a session that ended here for want of answers, and that a server which comes back may keep for another
// timeout: whoever waits behind its nodes need not. All holds on it ended long ago.
//
// Source: a restarted ensemble gives every session a full timeout; anyone with id and password may close one.
func (c *core) bury(dead corpse) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.ConnectTimeout)
	defer cancel()
	for _, server := range c.opts.Servers {
		raw, err := c.opts.Dial(ctx, "tcp", server)
		if err != nil {
			continue
		}
		err = func() error {
			// When it has served its purpose, or the time is up.
			stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
			defer func() { stop(); _ = raw.Close() }()
			if _, err := raw.Write(wire.CloseFrames(dead.id, dead.password)); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, raw) // the server hangs up when it is done
			return err
		}()
		if err == nil {
			return
		}
	}
	c.opts.Log.Debug("zookeeper: could not close an old session, it will expire", "session", fmt.Sprintf("0x%x", dead.id))
}
