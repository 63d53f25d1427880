// Package fakehold creates holds without a server, for tests of code that takes a *zkrecipes.Hold.
//
//	h := fakehold.New(t.Context(), 42)
//	go work(h.Hold)
//	h.Lose(zkrecipes.LossExpired)
//
// Such a hold has no contender on any server. Its Check method succeeds as long as the hold is held and the context is
// not done, while Txn always fails. To test what is written under a hold, use a recipe on a server of package zktest
// instead.
package fakehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Hold is a hold that lasts until the test ends it. It is safe for concurrent use.
type Hold struct {
	*zkrecipes.Hold
	contender *contender
	end       func(*zkrecipes.LostError)
}

// New returns a hold with the given token. Its context carries ctx's values, but is not canceled with ctx and doesn't
// inherit its deadline. The hold lasts until it is released or lost; see [Hold.Lose] and [Hold.SetValidUntil].
func New(ctx context.Context, token zkrecipes.Token) *Hold {
	c := &contender{
		token: token, revoked: make(chan struct{}), warnings: make(map[*warning]struct{}),
		until: time.Now().Add(forever),
	}
	h, end := zkrecipes.NewHold(ctx, c)
	return &Hold{h, c, end}
}

// forever is longer than any test runs, even in virtual time.
const forever = 100 * 365 * 24 * time.Hour

// Lose makes the hold end as lost, for the given reason. If the hold has already ended, Lose is a no-op. Afterwards
// ValidUntil is not in the future. This differs from a real hold in the case of LossNodeDeleted and LossSuspended,
// where the session may live on, so that ValidUntil may still be in the future.
//
// With LossClosed the loss matches ErrClosed, and with LossRefused it matches ErrAuthFailed. With LossDeadline the loss
// is dated to the deadline; if that is still in the future, it moves back to now.
func (h *Hold) Lose(reason zkrecipes.LossReason) {
	lost := &zkrecipes.LostError{Reason: reason, Path: h.Path(), At: time.Now()}
	switch reason {
	case zkrecipes.LossClosed:
		lost.Err = zkrecipes.ErrClosed
	case zkrecipes.LossRefused:
		lost.Err = zkrecipes.ErrAuthFailed
	default: // a real loss has an error from a server
	}
	if until := h.ValidUntil(); reason == zkrecipes.LossDeadline && until.Before(lost.At) {
		lost.At = until
	}
	h.end(lost)
	// Not earlier: a concurrent caller would mistake it for a deadline that has passed.
	if errors.Is(h.Err(), zkrecipes.ErrLost) {
		h.contender.proveNoLonger(lost.At)
	}
}

// SetValidUntil sets the hold's deadline; the default is 100 years from now. As in a process that was paused, no timer
// ends the hold at the deadline: it ends as lost only when the code next queries it or its context.
// To test the loss in a running process, use [Hold.Lose] with LossDeadline. The channels returned by Expiring are still
// closed by a timer, unless the test's process is itself paused.
func (h *Hold) SetValidUntil(t time.Time) { h.contender.setValidUntil(t) }

// Revoke closes the channel returned by Revoked, as when another client asks the holder to release. It is idempotent.
func (h *Hold) Revoke() { h.contender.revoke() }

// contender is the backend of a hold. It exists on no server.
type contender struct {
	token   zkrecipes.Token
	revoked chan struct{}
	once    sync.Once // closes revoked

	mu       sync.Mutex
	until    time.Time
	warnings map[*warning]struct{}
}

// warning is one channel of Expiring that is not closed yet.
type warning struct {
	lead  time.Duration
	timer *time.Timer
}

func (c *contender) Path() string             { return fmt.Sprintf("/fakehold/lock-%010d", c.token) }
func (c *contender) Token() zkrecipes.Token   { return c.token }
func (c *contender) Revoked() <-chan struct{} { return c.revoked }
func (c *contender) revoke()                  { c.once.Do(func() { close(c.revoked) }) }

func (c *contender) ValidUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// proveNoLonger moves the time until which the hold is proven back to t, if it is later than t.
func (c *contender) proveNoLonger(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Before(c.until) {
		c.until = t
	}
}

func (c *contender) setValidUntil(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	for w := range c.warnings {
		w.timer.Reset(time.Until(t.Add(-w.lead)))
	}
}

func (c *contender) OnExpiring(lead time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &warning{lead, time.AfterFunc(time.Until(c.until.Add(-lead)), f)}
	c.warnings[w] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		w.timer.Stop()
		delete(c.warnings, w)
	}
}

// Check is only called while the hold is held.
func (*contender) Check(ctx context.Context) error { return context.Cause(ctx) }

func (*contender) Txn(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return nil, errors.New("a hold of fakehold has no server: use a recipe on a server of package zktest")
}

// Release and Lapse are called when the hold has ended. There is nothing to remove.
func (*contender) Release(context.Context) error { return nil }
func (*contender) Lapse(time.Time)               {}
