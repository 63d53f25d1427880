package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// Grant is what stands behind a [Hold]: the contender in ZooKeeper, kept by the recipe that acquired it. Users need it
// only to build a Hold with [NewHold], in tests of code that takes a Hold.
type Grant interface {
	// Path and Token belong to the contender.
	Path() string
	Token() Token
	// ValidUntil is the time up to which the contender is proven to exist, unless it is deleted by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release are behind the methods of Hold. Every Hold.Release of a hold that was not lost
	// calls Release, so it must be idempotent. A hold that finds its deadline passed also calls Release, with a context
	// that has ended; the hold has ended before. So Release must wait no longer than its context.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
}

// Hold is one granted acquisition: a lock, a lease of a semaphore, or a term of leadership. It ends once, at the
// earliest of: [Hold.Release], the end of its session, its deadline ([Hold.ValidUntil]), the deletion of its contender,
// the closing of the client. An ended hold never comes back. A Hold is safe for concurrent use.
//
// A live hold proves that the server had granted no other contender when the hold last looked at the clock. It cannot
// prove that this is still so a moment later: the process may be frozen between the look and the write. [Hold.Txn]
// protects writes in ZooKeeper against that, and [Hold.Token] protects all other resources.
type Hold struct {
	grant Grant
	ctx   *holdContext // its cause is the only record of whether the hold has ended, and why
}

// NewHold returns a hold on g, and the function that ends it as lost. The hold's context has the values of ctx, but
// neither its cancellation nor its deadline. Only the first end counts: after it, the function does nothing.
func NewHold(ctx context.Context, g Grant) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{grant: g}
	h.ctx = &holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}

// Context returns the context of the hold. It ends with the hold, and [context.Cause] says why, as [Hold.Err] does.
// Pass it to work that must not outlive the hold. Its values are the values of the acquisition's context.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the hold is held. Afterwards it is [ErrReleased] or a [*LostError]. It looks at the clock, so a
// process that was frozen past the deadline sees the loss at its first call, before any timer fires.
func (h *Hold) Err() error {
	h.lapse()
	return h.ended()
}

// ValidUntil is the time up to which the hold is proven. It moves on while the server answers. Package conn says what
// the proof rests on.
func (h *Hold) ValidUntil() time.Time { return h.grant.ValidUntil() }

// Token returns the fencing token of the hold.
func (h *Hold) Token() Token { return h.grant.Token() }

// Path returns the path of the contender, with the chroot taken off.
func (h *Hold) Path() string { return h.grant.Path() }

// Check asks ZooKeeper whether the hold is still held. The leader of the ensemble answers. A replaced leader takes up
// to a tick and a half to find out, and may still say yes until then; [Hold.Txn] asks a quorum.
//
// Errors: one that matches [ErrLost] or [ErrReleased] says that the hold has ended. Any other says that Check could not
// find out.
func (h *Hold) Check(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	return h.grant.Check(ctx)
}

// Txn applies ops, all or none, and only if the contender still exists when the leader applies them. So a stale holder
// changes nothing. The ops are requests as for zk.Conn.Multi, with paths as the client sees them.
//
// Errors: [ErrFenced] if the hold had ended, and nothing was written. [ErrUnknownOutcome] if the reply was lost. Else
// the error of the op that failed, and nothing was written.
//
// Source: a version check on the contender is the first op of a ZooKeeper multi.
func (h *Hold) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := h.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return h.grant.Txn(ctx, ops...)
}

// Revoked is closed when another client has asked the holder to release. It is only a request: the hold goes on until
// the holder releases.
//
// Source: Curator's Revoker writes __REVOKE__ onto the holder's node.
func (h *Hold) Revoked() <-chan struct{} { return h.grant.Revoked() }

// Release ends the hold and removes its contender. ctx bounds how long the caller waits for the removal. The removal
// goes on in the background until the node is gone or the session is over, so Release with an ended ctx still releases.
// If no server answers until the session ends, the next contender is granted when the servers have ended the session
// too. Release is idempotent. Call it again to go on waiting.
//
// Errors: a [*LostError] if the hold was lost before; the cause of ctx if ctx ended first.
func (h *Hold) Release(ctx context.Context) error {
	h.lapse()
	// The hold ends before its node is deleted, so the next grant comes after the end.
	h.end(ErrReleased)
	if err := h.ended(); !errors.Is(err, ErrReleased) {
		return err
	}
	return h.grant.Release(ctx)
}

// lapse ends the hold if its deadline has passed, and removes the contender. The removal is needed: an answer that came
// in time may be recorded after this look. It would keep the session, and no loss callback would remove the contender
// of the ended hold.
func (h *Hold) lapse() {
	until := h.grant.ValidUntil()
	if time.Now().Before(until) {
		return
	}
	if h.end(&LostError{Reason: LossDeadline, Path: h.grant.Path(), At: until}) {
		_ = h.grant.Release(h.ctx.Context) // the context has ended; the removal goes on
	}
}

// end ends the hold unless it has ended already. It reports whether err ended it. When end returns, every caller sees
// that the hold has ended, also if another call ended it.
func (h *Hold) end(err error) (first bool) {
	h.ctx.cancel(err)
	return h.ended() == err //nolint:errorlint // the very one
}

// ended is Err without the look at the clock.
func (h *Hold) ended() error { return context.Cause(h.ctx.Context) }

// holdContext looks at the clock in each method. If the deadline passed while the process was frozen, the context must
// not say that it is alive.
type holdContext struct {
	context.Context
	hold   *Hold
	cancel context.CancelCauseFunc
}

func (c *holdContext) Err() error {
	c.hold.lapse()
	return c.Context.Err()
}

func (c *holdContext) Done() <-chan struct{} {
	c.hold.lapse()
	return c.Context.Done()
}

// context.Cause finds the cause through Value, so Value looks at the clock as well.
func (c *holdContext) Value(key any) any {
	c.hold.lapse()
	return c.Context.Value(key)
}
