package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// Grant is what stands behind a [Hold]: the contender in ZooKeeper, kept by the recipe that acquired it. Users meet it
// only when they build a Hold of their own, with [NewHold], to test code that takes one.
type Grant interface {
	// Path and Token are those of the contender.
	Path() string
	Token() Token
	// ValidUntil is the time up to which the contender is proven to exist, unless somebody deletes it by hand.
	ValidUntil() time.Time
	// Check, Txn, Revoked and Release stand behind the methods of Hold. Release is called by every Hold.Release of a hold
	// that was not lost before, so it must be idempotent; and, with a context that has ended, when the hold itself finds
	// that its deadline has passed, wherever it is asked something, so it must not wait for more than its context. By then
	// the hold has ended.
	Check(ctx context.Context) error
	Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	Revoked() <-chan struct{}
	Release(ctx context.Context) error
}

// Hold is one granted acquisition: a lock held, a permit taken, a term of leadership. It ends once, and for ever, at
// the earliest of: [Hold.Release], the end of its session, the passing of its deadline ([Hold.ValidUntil]), the
// deletion of its contender by anyone, the closing of the client. A Hold is safe for concurrent use.
//
// A live hold proves that the server had not let anybody else in when the clock was last looked at. What it cannot
// prove is that this is still so a moment later: the process may be frozen between the look and the write. For that
// there are [Hold.Txn], for writes in ZooKeeper, and [Hold.Token], for all other resources.
type Hold struct {
	grant Grant
	ctx   *holdContext // whose cause is the one book of whether it has ended, and why
}

// NewHold returns a hold on g, and the function that ends it as lost. The hold's context has the values of ctx, and
// neither its cancellation nor its deadline. The first end counts: after it, end does nothing.
func NewHold(ctx context.Context, g Grant) (h *Hold, end func(*LostError)) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h = &Hold{grant: g}
	h.ctx = &holdContext{Context: inner, hold: h, cancel: cancel}
	return h, func(lost *LostError) { h.end(lost) }
}

// Context returns the context of the hold: it ends with the hold, and [context.Cause] says why, as [Hold.Err] does.
// Work that must not outlive the hold takes it. Its values are those of the context given to the acquisition.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the hold is held; afterwards [ErrReleased] or a [*LostError]. It looks at the clock itself, so a
// process that was frozen past the deadline sees the loss on its first call, before any timer has fired.
func (h *Hold) Err() error {
	h.lapse()
	return h.ended()
}

// ValidUntil is the time up to which the hold is proven; it moves on while the server answers. See package conn for what
// the proof rests on.
func (h *Hold) ValidUntil() time.Time { return h.grant.ValidUntil() }

// Token returns the fencing token of the hold.
func (h *Hold) Token() Token { return h.grant.Token() }

// Path returns the path of the contender, with the chroot taken off.
func (h *Hold) Path() string { return h.grant.Path() }

// Check asks ZooKeeper whether the hold is still held; the leader of the ensemble answers. One that has been replaced, and
// takes up to a tick and a half to find out, may still say yes; [Hold.Txn] asks a quorum. An error that matches [ErrLost]
// or [ErrReleased] says no; any other that it could not be found out.
func (h *Hold) Check(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	return h.grant.Check(ctx)
}

// Txn applies ops, requests as zk.Conn.Multi takes them with paths as the client sees them, all or none, and only if
// the contender still exists when the leader applies them: a stale holder changes nothing.
//
// Errors: [ErrFenced] if the hold had ended, nothing was written; [ErrUnknownOutcome] if the reply was lost; otherwise
// the error of the op that failed, nothing was written.
//
// Source: a version check on the contender as the first op of a ZooKeeper multi.
func (h *Hold) Txn(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	if err := h.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return h.grant.Txn(ctx, ops...)
}

// Revoked is closed when somebody has asked for the hold to be given back. It is a request: nothing else happens
// until the holder releases.
//
// Source: Curator's Revoker writes __REVOKE__ onto the holder's node.
func (h *Hold) Revoked() <-chan struct{} { return h.grant.Revoked() }

// Release ends the hold and removes its contender. The context bounds how long the caller waits for the removal, never
// the removal itself, which goes on in the background until the node is gone or the session over: a Release with a
// dead context still releases. After a session that ended for want of answers others are let in when the servers have
// ended it as well. Release is idempotent, and may be called again to go on waiting.
//
// Errors: a [*LostError] if the hold was lost before; the cause of ctx if that ended first.
func (h *Hold) Release(ctx context.Context) error {
	h.lapse()
	// The hold ends before its node is touched: whoever is let in by the removal comes after this.
	h.end(ErrReleased)
	if err := h.ended(); !errors.Is(err, ErrReleased) {
		return err
	}
	return h.grant.Release(ctx)
}

// lapse ends the hold if its deadline has passed. Then it sees to the contender as well: an answer that came in time, but
// is booked after this look, keeps the session, and nobody else would be told of a hold that ended.
func (h *Hold) lapse() {
	until := h.grant.ValidUntil()
	if time.Now().Before(until) {
		return
	}
	if h.end(&LostError{Reason: LossDeadline, Path: h.grant.Path(), At: until}) {
		_ = h.grant.Release(h.ctx.Context) // which has ended; the removal goes on
	}
}

// end ends the hold unless it has ended, and reports whether err, a new one, is what has ended it. When it returns
// everybody can see that the hold has ended, whoever it was that ended it.
func (h *Hold) end(err error) (first bool) {
	h.ctx.cancel(err)
	return h.ended() == err //nolint:errorlint // the very one
}

// ended is Err for one who does not look at the clock.
func (h *Hold) ended() error { return context.Cause(h.ctx.Context) }

// holdContext looks at the clock wherever it can be asked something: a context whose deadline passed while the
// process was frozen must not say that it is alive.
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

// Value is also how context.Cause finds the cause, so it looks at the clock as well.
func (c *holdContext) Value(key any) any {
	c.hold.lapse()
	return c.Context.Value(key)
}
