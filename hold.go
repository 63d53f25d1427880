package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Hold is one granted acquisition: a lock, one or more leases of a semaphore, or a term of leadership. It ends once and
// for all when it is released, its session ends, its deadline ([Hold.ValidUntil]) passes, its contender is deleted, the
// client is closed, or, if the recipe was created with WithLossOnSuspend, the connection is lost, whichever comes
// first. A Hold is safe for concurrent use.
//
// If [Hold.Err] returns nil, the servers had granted no contender that the hold excludes at the moment Err read the
// clock, unless somebody deleted the contender by hand and this client has not heard of it yet. No hold can guarantee
// that this is still true a moment later, because the process may be paused between the check and a write. To guard
// against that, use [Hold.Txn] for writes to ZooKeeper, and [Hold.Token] to let any other resource reject a stale
// holder.
//
// To test code that takes a Hold, create one without a server with package zktest/fakehold.
type Hold struct {
	backing Backing
	ctx     holdContext // its cause is the only record of whether the hold has ended, and why
	since   time.Time

	mu       sync.Mutex
	warnings map[time.Duration]warning // the newest of each lead
}

// Context returns the hold's context, which is canceled when the hold ends; [context.Cause] then returns the same error
// as [Hold.Err]. Pass it to work that must not outlive the hold. It carries the values of the context passed to the
// call that acquired the hold.
//
// This context checks the clock whenever it is used, as does every context that a recipe passes to a function, and any
// context derived from either with [context.WithValue]. A context derived with [context.WithCancel],
// [context.WithTimeout] or by a library doesn't: if the process was paused past the deadline, such a context may appear
// to be alive until a timer fires, and a channel that Done returned before the pause is closed just as late. Before a
// step that matters, therefore, check the hold itself or the context that the recipe passed to you.
func (h *Hold) Context() context.Context { return &h.ctx }

// HoldFromContext returns the innermost hold that ctx is derived from, and whether there is one. It lets a function
// that runs under a lock obtain the token, or write with [Hold.Txn], without taking the hold as a parameter. The hold
// may already have ended, so check [Hold.Err].
func HoldFromContext(ctx context.Context) (*Hold, bool) {
	if ctx == nil {
		return nil, false
	}
	h, ok := ctx.Value(holdKey{}).(*Hold)
	return h, ok
}

// holdKey is the key of the hold in its context.
type holdKey struct{}

// Done returns a channel that is closed when the hold ends.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// String names the contender and its token, and says whether it is still held or why not.
func (h *Hold) String() string {
	state := fmt.Sprintf("held since %s", h.since.Format(time.RFC3339))
	if err := h.Err(); err != nil {
		state = err.Error()
	}
	return fmt.Sprintf("%s (token %d): %s", h.Path(), h.Token(), strings.TrimPrefix(state, h.Path()+": "))
}

// Err returns nil while the hold is held, and [ErrReleased] or a [*LostError] afterwards. Err checks the clock
// itself, so a process that was paused past the deadline sees the loss on its first call, even before a timer fires.
func (h *Hold) Err() error {
	h.endIfDue()
	return h.ended()
}

// ValidUntil returns the time up to which the hold is proven to be held. It advances as servers answer and can move
// back while the client reconnects, so call ValidUntil again rather than keeping the result. It is the deadline of the
// session, and does not show that the hold has been released or lost: call Err for that. Package conn describes what
// the proof depends on.
func (h *Hold) ValidUntil() time.Time { return h.backing.ValidUntil() }

// Since returns when the hold was granted, by the local clock.
func (h *Hold) Since() time.Time { return h.since }

// Expiring returns a channel that is closed when at most the duration lead remains before [Hold.ValidUntil], or when
// the hold ends. This lets you stop work in an orderly way. If lead is 0 or less there is no warning, and Expiring
// returns the same channel as [Hold.Done]. A closed channel stays closed even though the deadline may still advance, so
// check ValidUntil, or call Expiring again, which evaluates the deadline anew. You may call Expiring in every iteration
// of a loop, because the hold keeps one channel per lead until that channel is closed.
//
// On a healthy connection more than a quarter of the session timeout remains, so a lead of up to a quarter warns only
// of trouble. There are two exceptions. With conn.WithTickTime and a tick below an eighth of the session timeout, less
// may remain during the first sixth of the timeout. With conn.WithLeastTimeout, no more than that least timeout remains
// while a server is resuming the session.
//
// If the process was paused, the channel is closed late. By contrast, Err checks the clock, and so does each call to
// Expiring.
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
		w.ctx, w.give = context.WithCancel(h.ctx.Context) // canceled with the hold, without a goroutine
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

// warning backs one channel returned by [Hold.Expiring].
type warning struct {
	ctx  context.Context //nolint:containedctx // its end is the warning
	give context.CancelFunc
}

// forget drops a warning that was given, unless there is a newer one.
func (h *Hold) forget(lead time.Duration, given warning) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.warnings[lead].ctx == given.ctx {
		delete(h.warnings, lead)
	}
}

// Token returns the hold's fencing token.
func (h *Hold) Token() Token { return h.backing.Token() }

// Path returns the contender's path, without the chroot.
func (h *Hold) Path() string { return h.backing.Path() }

// Check is like Err, but then asks the leader of the ensemble whether the hold is still held. A leader that has just
// been replaced may still answer yes for up to 1.5 ticks. This can't happen with [Hold.Txn], which needs a quorum.
//
// Errors: one that matches [ErrLost] or [ErrReleased] if the hold is no longer held. After any other error, you don't
// know whether it is. If ctx is derived from another hold, the error may match [ErrLost] because that one was lost.
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

// Txn applies either all of the ops or none of them, and only if the contender still exists when the leader applies
// them, so that a stale holder cannot change anything. The ops' paths are relative to the root of the client the recipe
// was created with, even if that client came from conn.Client.Sub. Txn returns one result for each op.
//
// Errors: [ErrFenced] if the hold had ended, in which case nothing was written; [ErrUnknownOutcome] if the reply was
// lost; an op that is malformed or has a different [Root], before sending any request; or the error of the op that
// failed, with its path, in which case nothing was written either.
//
// Source: a check of the contender, in any version, as the first op of a ZooKeeper multi.
func (h *Hold) Txn(ctx context.Context, ops ...Op) ([]OpResult, error) {
	if err := h.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return h.backing.Txn(ctx, ops...)
}

// Revoked returns a channel that is closed when another client asks for the hold to be released. This is only a
// request: whether and when to release is up to the holder. The channel isn't closed when the hold ends, so wait for
// [Hold.Done] as well.
//
// Source: Curator's Revoker, which writes __REVOKE__ to the holder's node.
func (h *Hold) Revoked() <-chan struct{} { return h.backing.Revoked() }

// Release ends the hold. Unless nested holds remain on the contender, it also deletes the contender, and waits until
// the node is gone or the session is over. If ctx is done first, the deletion continues in the background, so Release
// with a canceled context still releases the hold. A context that is derived from the hold is done as soon as the hold
// ends, and with such a context Release returns nil without waiting. Release is idempotent, and you can call it again
// to resume waiting for the deletion.
//
// If the session has timed out locally, its contenders stay until the client has reconnected and ended that session, or
// the servers have expired it. Only then is the next waiter granted.
//
// Errors: a [*LostError] if the hold had already been lost, in which case Release doesn't wait, since the loss itself
// deletes the contender; context.Cause(ctx) if ctx is done before the deletion is confirmed; the server's error if it
// does not permit the deletion, which is then retried in the background.
func (h *Hold) Release(ctx context.Context) error {
	h.endIfDue()
	// The hold ends before its node is deleted, so that the next holder is granted only after this one has ended.
	h.end(ErrReleased)
	if err := h.ended(); !errors.Is(err, ErrReleased) {
		return err
	}
	return h.backing.Release(ctx)
}

// endIfDue ends the hold if its deadline has passed, and the whole grant with it, as a loss reported by the session
// would. It cannot leave that to the session: an answer that arrived in time may be counted only after this check, and
// the session would then live on and keep the contender of a hold that has ended.
func (h *Hold) endIfDue() {
	until := h.backing.ValidUntil()
	if time.Now().Before(until) {
		return
	}
	if h.end(&LostError{Reason: LossDeadline, Path: h.backing.Path(), At: until}) {
		h.backing.Lapse(until)
	}
}

// end ends the hold unless it has ended, and reports whether err is what ended it, which means something only for an
// error that no other call passes, unlike ErrReleased. When it returns, every goroutine can see that the hold has
// ended, even if another call ended it.
func (h *Hold) end(err error) (first bool) {
	h.ctx.cancel(err)
	return h.ended() == err //nolint:errorlint // this error, not one like it
}

// ended is Err without the check of the clock.
func (h *Hold) ended() error { return context.Cause(h.ctx.Context) }

// holdContext checks the clock in every method: a context whose deadline passed while the process was paused
// must not report that it is alive.
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

// Value checks the clock as well, because context.Cause finds the cause through it.
func (c *holdContext) Value(key any) any {
	c.hold.endIfDue()
	if key == (holdKey{}) {
		return c.hold
	}
	return c.Context.Value(key)
}
