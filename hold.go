package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/grant"
)

// Hold is one granted acquisition: a lock, leases of a semaphore, or a term of leadership. It ends once, and for ever,
// when it is released, its session ends, its deadline ([Hold.ValidUntil]) passes, its contender is deleted, or the client
// is closed, whichever is first. A Hold is safe for concurrent use.
//
// If [Hold.Err] is nil, the server had let in no other contender when Err looked at the clock. Whether this is still so a
// moment later no hold can prove: the process may be frozen between the look and the write. [Hold.Txn] guards writes in
// ZooKeeper against that, and [Hold.Token] all other resources.
//
// For tests of code that takes a Hold, package zktest/fakehold makes one without a server.
type Hold struct {
	backing backing
	ctx     holdContext // its cause alone says whether the hold has ended, and why
	since   time.Time

	mu       sync.Mutex
	warnings map[time.Duration]warning // the newest of each lead
}

// backing stands behind a hold.
type backing = grant.Backing[Token, Op, OpResult]

func init() { grant.NewHold = newHold }

// newHold makes a hold, as [grant.NewHold] says.
func newHold(ctx context.Context, b backing) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{backing: b, since: time.Now()}
	h.ctx = holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}

// Context returns the context of the hold: it ends with the hold, and [context.Cause] says why, as [Hold.Err] does.
// Work that must not outlive the hold takes it. Its values are those of the context given to the acquisition.
//
// This context, and every context that a recipe hands to a function, looks at the clock when it is asked. So does a
// context that [context.WithValue] makes of it. A context that [context.WithCancel], [context.WithTimeout] or a
// library makes of it does not. If the process was frozen past the deadline, such a context may say that it is alive, until
// a timer has fired. A channel that Done returned before the freeze is closed as late. Before a step that counts, ask the
// hold or the context that the recipe handed out.
func (h *Hold) Context() context.Context { return &h.ctx }

// HoldFromContext returns the hold that ctx descends from, the innermost if there are several. So a function that works under
// a lock finds the token, and writes with [Hold.Txn], without a parameter for the hold. It reports false if there is none.
// The hold may have ended: ask [Hold.Err].
func HoldFromContext(ctx context.Context) (*Hold, bool) {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	return h, ok
}

// holdKey finds the hold in its context.
type holdKey struct{}

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the hold is held; afterwards [ErrReleased] or a [*LostError]. It looks at the clock itself, so a
// process that was frozen past the deadline sees the loss on its first call, before any timer has fired.
func (h *Hold) Err() error {
	h.endIfDue()
	return h.ended()
}

// ValidUntil is the time up to which the hold is proven. It moves on while the server answers, and it can move back while
// the client reconnects: ask again rather than keep it. See package conn for what the proof rests on.
func (h *Hold) ValidUntil() time.Time { return h.backing.ValidUntil() }

// Since is when the hold was granted, by the local clock.
func (h *Hold) Since() time.Time { return h.since }

// Expiring returns a channel that is closed when at most lead is left of [Hold.ValidUntil], or when the hold has ended: a
// chance to stop in order. With a lead of 0 or less there is no warning: Expiring then returns the channel of [Hold.Done]. A
// channel that is closed stays closed, but the deadline may move on afterwards. So look at ValidUntil, or call Expiring again,
// which looks anew. A loop may call it in every round. The hold keeps one channel for each lead until that is closed.
//
// In good health more than a quarter of the session timeout is left, so a lead of up to a quarter warns of trouble alone. There
// are two exceptions. With conn.WithTickTime and a tick below an eighth of the session timeout, less may be left during the
// first sixth of the timeout. With conn.WithLeastTimeout, no more than that is left while a server resumes the session.
//
// If the process was frozen, the channel is closed late. Err looks at the clock, and so does a call of Expiring.
func (h *Hold) Expiring(lead time.Duration) <-chan struct{} {
	if lead <= 0 || h.Err() != nil {
		return h.Done()
	}
	h.mu.Lock()
	w := h.warnings[lead]
	first := w.ctx == nil || w.ctx.Err() != nil
	if first {
		if h.warnings == nil {
			h.warnings = make(map[time.Duration]warning)
		}
		w.ctx, w.give = context.WithCancel(h.ctx.Context) // which the end of the hold ends, without a goroutine
		h.warnings[lead] = w
	}
	h.mu.Unlock()
	if first {
		stop := h.backing.OnExpiring(lead, w.give)
		context.AfterFunc(w.ctx, func() {
			stop()
			h.forget(lead, w)
		})
	}
	if !time.Now().Before(h.backing.ValidUntil().Add(-lead)) {
		w.give()
	}
	return w.ctx.Done()
}

// warning is what stands behind a channel of [Hold.Expiring].
type warning struct {
	ctx  context.Context //nolint:containedctx // its end is the warning
	give context.CancelFunc
}

// forget takes a warning off that was given, unless there is a newer one.
func (h *Hold) forget(lead time.Duration, given warning) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.warnings[lead].ctx == given.ctx {
		delete(h.warnings, lead)
	}
}

// Token returns the fencing token of the hold.
func (h *Hold) Token() Token { return h.backing.Token() }

// Path returns the path of the contender, with the chroot taken off.
func (h *Hold) Path() string { return h.backing.Path() }

// Check asks the leader of the ensemble whether the hold is still held. A leader that was just replaced may still say yes
// for up to 1.5 ticks; [Hold.Txn] asks a quorum.
//
// Errors: one that matches [ErrLost] or [ErrReleased] if the hold is not held; any other says that the answer is unknown.
func (h *Hold) Check(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	err := h.backing.Check(ctx)
	if ended := h.ended(); ended != nil {
		return ended // a node that a Release deleted meanwhile was not lost
	}
	return err
}

// Txn applies ops all or none, and only if the contender still exists when the leader applies them: a stale holder changes
// nothing. The paths of ops are below the root of the client that the recipe is on, also if that client was made by
// conn.Client.Sub. It returns one result for each op.
//
// Errors: [ErrFenced] if the hold had ended, nothing was written; [ErrUnknownOutcome] if the reply was lost; an op that is
// malformed, or has another [Root], before any request; otherwise the error of the op that failed, with its path, nothing was
// written.
//
// Source: a version check on the contender as the first op of a ZooKeeper multi.
func (h *Hold) Txn(ctx context.Context, ops ...Op) ([]OpResult, error) {
	if err := h.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return h.backing.Txn(ctx, ops...)
}

// Revoked is closed when another client has asked for the hold to be released. It is a request: nothing else happens
// until the holder releases.
//
// Source: Curator's Revoker writes __REVOKE__ onto the holder's node.
func (h *Hold) Revoked() <-chan struct{} { return h.backing.Revoked() }

// Release ends the hold and deletes its contender. The context bounds how long the caller waits for the deletion. The
// deletion goes on in the background until the node is gone or the session is over, so a Release with a dead context
// still releases. Release is idempotent, and may be called again to go on waiting.
//
// If the session has ended for want of answers, waiters are let in when the servers have ended it as well.
//
// Errors: a [*LostError] if the hold was lost before; the cause of ctx if that ended first.
func (h *Hold) Release(ctx context.Context) error {
	h.endIfDue()
	// The hold ends before its node is deleted, so that the next holder comes after this.
	h.end(ErrReleased)
	if err := h.ended(); !errors.Is(err, ErrReleased) {
		return err
	}
	return h.backing.Release(ctx)
}

// endIfDue ends the hold if its deadline has passed, and the whole grant with it, as a loss that the session tells of. An answer that
// arrived in time may be counted only after this look. The session then lives on, and would keep the contender of a hold that has ended.
func (h *Hold) endIfDue() {
	until := h.backing.ValidUntil()
	if time.Now().Before(until) {
		return
	}
	if h.end(&LostError{Reason: LossDeadline, Path: h.backing.Path(), At: until}) {
		h.backing.Lapse(until)
	}
}

// end ends the hold unless it has ended, and reports whether err, which must be a new error, has ended it. When it returns,
// every goroutine can see that the hold has ended, also if another call has ended it.
func (h *Hold) end(err error) (first bool) {
	h.ctx.cancel(err)
	return h.ended() == err //nolint:errorlint // this error, not one like it
}

// ended is Err without the look at the clock.
func (h *Hold) ended() error { return context.Cause(h.ctx.Context) }

// holdContext looks at the clock in every method: a context whose deadline passed while the process was frozen must not
// say that it is alive.
type holdContext struct {
	context.Context
	hold   *Hold
	cancel context.CancelCauseFunc
}

func (c *holdContext) Err() error {
	c.hold.endIfDue()
	return c.Context.Err()
}

func (c *holdContext) Done() <-chan struct{} {
	c.hold.endIfDue()
	return c.Context.Done()
}

// Value is also how context.Cause finds the cause, so it looks at the clock as well.
func (c *holdContext) Value(key any) any {
	c.hold.endIfDue()
	if key == (holdKey{}) {
		return c.hold
	}
	return c.Context.Value(key)
}
