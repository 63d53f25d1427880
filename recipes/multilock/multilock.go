// Package multilock acquires several locks together, either all of them or none of them. The locks can be mutexes, read
// and write locks, semaphore leases, and terms of elections.
//
//	all, err := multilock.LockAll(ctx, account.Part(), ledger.RPart(), uploads.Part(2))
//	if err != nil {
//		return err
//	}
//	defer all.Release(ctx)
//
// # Guarantees
//
// [LockAll] acquires either all of the locks or none of them. Each hold has its recipe's guarantees, and
// [Holds.Context] is canceled as soon as one of the holds ends.
//
// Concurrent calls can't deadlock with each other, whatever the order of their arguments, because each acquires its
// locks in the order of their paths on the server. Only locks with the same path on different ensembles must be given
// in the same order by all callers. This doesn't protect a caller that already holds a lock and calls LockAll for more,
// so acquire all of them in one call.
//
// # Failures
//
// If a hold is lost while LockAll is waiting for the next lock, LockAll fails and releases the other holds. If one is
// lost later, you keep the others until you release them with [Holds.Release].
//
// # Fairness
//
// Each lock is granted first come, first served, as its recipe describes. Keep in mind that while LockAll is waiting
// for a lock, it already holds those whose paths come before it.
//
// # Cost
//
// A call costs what its locks cost, one after another. A release, in contrast, sends all deletions first and then waits
// for their answers together.
//
// # Compatibility
//
// Like Curator's InterProcessMultiLock, this package has no nodes of its own: each lock has those of its recipe.
// However, Curator acquires locks in the order given, so a Java program that shares two or more of the locks avoids a
// deadlock only if it also acquires them in the order of their paths.
package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Holds are the holds on several locks that were acquired together. They are safe for concurrent use.
type Holds struct {
	ctx   context.Context //nolint:containedctx // it is what Context returns
	parts []hold.Part
	holds []*zkrecipes.Hold // on parts, in the same order
}

// LockAll acquires either all of the locks or none of them. It proceeds one lock at a time, in order of the locks'
// paths on the server and, for equal paths, of their recipes, so that calls that share some of the locks can't
// deadlock. Locks that differ only in their ensembles are acquired in the order given. ctx bounds the call itself, not
// how long the locks are held.
//
// If LockAll fails, it releases the locks that it has already acquired, in reverse order.
//
// Errors, before sending any request: no locks, or a zero Part; a lock that is given twice, which includes an rwlock's
// reader and writer; leases that the semaphore can't have. Later: the error from the first lock that can't be acquired,
// such as a [*zkrecipes.WaitError] if ctx is done first; one that matches ErrLost if a hold was lost while LockAll was
// waiting for the next lock; or ErrDeadlock if two locks are one path through two clients, or if ctx is derived from a
// hold on one of them that isn't reentrant. With semaphores, LockAll does not return ErrDeadlock but waits: leases that
// the same caller holds may be released by another goroutine.
//
// Source: Curator's InterProcessMultiLock, which gives each member the full wait time, and continues after a failure.
func LockAll(ctx context.Context, locks ...zkrecipes.Part) (*Holds, error) {
	parts, err := inOrder(locks)
	if err != nil {
		return nil, fmt.Errorf("lock all: %w", err)
	}
	if ctx == nil {
		return nil, fmt.Errorf("lock all: %w", session.ErrNoContext)
	}
	all := &Holds{ctx: context.WithoutCancel(ctx)}
	for _, p := range parts {
		// The wait ends with ctx, and with the loss of any hold so far.
		waiting, stop := hold.Both(all.ctx, ctx)
		h, err := p.Acquire(waiting)
		stop(nil)
		if err != nil {
			_ = all.Release(ctx) // only the first error counts; the removals continue
			return nil, fmt.Errorf("lock all: %w", err)
		}
		all.parts = append(all.parts, p)
		all.holds = append(all.holds, h)
		all.ctx, _ = hold.Both(h.Context(), all.ctx) //nolint:fatcontext // it ends with the first of them, and is inside all
	}
	return all, nil
}

// inOrder returns the locks in the order in which every call acquires them.
func inOrder(locks []zkrecipes.Part) ([]hold.Part, error) {
	if len(locks) == 0 {
		return nil, errors.New("no lock: want one or more, such as Mutex.Part")
	}
	parts := make([]hold.Part, 0, len(locks))
	for i, lock := range locks {
		p, ok := hold.PartOf(lock)
		switch {
		case !ok:
			return nil, fmt.Errorf("lock %d is a zero Part: want one that a recipe made, such as Mutex.Part", i)
		case p.Invalid != nil:
			return nil, p.Invalid
		case slices.ContainsFunc(parts, p.Same):
			return nil, fmt.Errorf("%s is given twice: want each lock once", p.Path)
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, hold.Part.Compare)
	return parts, nil
}

// Context returns a context that is derived from all of the holds and is canceled as soon as one of them ends, with the
// same cause. See [zkrecipes.Hold.Context].
func (hs *Holds) Context() context.Context { return hs.ctx }

// Done returns a channel that is closed as soon as one of the holds ends.
func (hs *Holds) Done() <-chan struct{} { return hs.ctx.Done() }

// Err returns nil while all locks are held. After that, it returns the error of a lost hold, or ErrReleased if none was
// lost. If several holds are lost, the error is the one for the first path.
func (hs *Holds) Err() error {
	var released error
	for _, h := range hs.holds {
		err := h.Err()
		if errors.Is(err, zkrecipes.ErrLost) {
			return err
		}
		released = cmp.Or(released, err)
	}
	return released
}

// ValidUntil returns the time up to which all holds are proven to be valid, which is the earliest of their deadlines.
func (hs *Holds) ValidUntil() time.Time {
	first := hs.holds[0].ValidUntil()
	for _, h := range hs.holds[1:] {
		if until := h.ValidUntil(); until.Before(first) {
			first = until
		}
	}
	return first
}

// Of returns the hold on one of the locks passed to [LockAll], or nil for any other lock. Each hold has its own token.
func (hs *Holds) Of(lock zkrecipes.Part) *zkrecipes.Hold {
	if p, ok := hold.PartOf(lock); ok {
		if i := slices.IndexFunc(hs.parts, p.Same); i >= 0 {
			return hs.holds[i]
		}
	}
	return nil
}

// Check asks ZooKeeper whether all holds are still held. See [zkrecipes.Hold.Check].
//
// Errors: those from all holds, joined.
func (hs *Holds) Check(ctx context.Context) error {
	return hs.each(func(h *zkrecipes.Hold) error { return h.Check(ctx) })
}

// Txn applies either all of the ops or none of them, and only if the contenders of all holds still exist when the
// leader applies the transaction. Paths are as seen by a single client: that of the lock whose path sorts first. See
// [zkrecipes.Hold.Txn].
//
// Errors: ErrFenced if one of the holds had ended, in which case nothing was written; ErrUnknownOutcome if the reply
// was lost; holds from several clients, before sending any request; or the failed op's error, in which case nothing was
// written.
func (hs *Holds) Txn(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return hold.TxnOfAll(ctx, hs.holds, ops...)
}

// Release releases all holds in reverse order, and then waits for the deletions together. As a result, another caller
// that is waiting for all of the locks finds the others already free when it wakes. See [zkrecipes.Hold.Release].
//
// Errors: those from all holds, joined.
func (hs *Holds) Release(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // makes a release return without the answer to its deletion
	for _, h := range slices.Backward(hs.holds) {
		_ = h.Release(sending) // the second call returns the error
	}
	return hs.each(func(h *zkrecipes.Hold) error { return h.Release(ctx) })
}

// each calls f for all holds concurrently and joins the errors.
func (hs *Holds) each(f func(*zkrecipes.Hold) error) error {
	errs := make([]error, len(hs.holds))
	var wg sync.WaitGroup
	for i, h := range hs.holds {
		wg.Go(func() { errs[i] = f(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
