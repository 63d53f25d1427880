package mutex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Holds are the holds on several mutexes that were locked together.
type Holds struct {
	ctx   context.Context //nolint:containedctx // it is what Context returns
	taken []*Mutex
	holds []*zkrecipes.Hold // on taken, in the same order
}

// LockAll locks all of the mutexes or none. It locks them one after the other in the order of their paths on
// the server, so that two callers that share some of them cannot deadlock. A mutex that is passed twice is
// locked once. Equal paths on different ensembles are locked in the order given. ctx bounds the whole call.
//
// On error none is held: the mutexes that were already locked are released in the background.
//
// Errors: the first error of [Mutex.Lock]; one that matches ErrLost if a hold was lost while the call waited
// for the next mutex; ErrDeadlock if two mutexes are one path through two clients, or if ctx descends from a
// hold on one of them that is not reentrant; no mutex, or a nil one.
//
// Source: Curator's InterProcessMultiLock, which gives each member the whole time, and continues after one has
// failed.
func LockAll(ctx context.Context, ms ...*Mutex) (*Holds, error) {
	if len(ms) == 0 || slices.Contains(ms, nil) {
		return nil, errors.New("lock all: want one or more mutexes, none of them nil")
	}
	if ctx == nil {
		return nil, fmt.Errorf("lock all: %w", session.ErrNoContext)
	}
	all := &Holds{ctx: context.WithoutCancel(ctx)}
	for _, m := range inOrder(ms) {
		// The wait ends with ctx, and with the loss of any hold so far.
		waiting, stop := hold.Both(all.ctx, ctx)
		h, err := m.Lock(waiting)
		stop(nil)
		if err != nil {
			_ = all.Release(ctx) // the error that counts is the first; the removals go on
			return nil, fmt.Errorf("lock all: %w", err)
		}
		all.taken = append(all.taken, m)
		all.holds = append(all.holds, h)
		all.ctx, _ = hold.Both(h.Context(), all.ctx) //nolint:fatcontext // it ends with the first of them, and is inside all
	}
	return all, nil
}

// inOrder returns the mutexes in the order of their paths, each once.
func inOrder(ms []*Mutex) []*Mutex {
	var ordered []*Mutex
	for _, m := range ms {
		if !slices.ContainsFunc(ordered, m.same) {
			ordered = append(ordered, m)
		}
	}
	slices.SortStableFunc(ordered, func(a, b *Mutex) int { return cmp.Compare(a.absolute(), b.absolute()) })
	return ordered
}

// absolute returns the path on the server.
func (m *Mutex) absolute() string { return m.queue.Client().Abs(m.queue.Path()) }

// same reports whether both are one lock of one client.
func (m *Mutex) same(other *Mutex) bool {
	return m.absolute() == other.absolute() && m.queue.Client().Same(other.queue.Client())
}

// Context returns a context that is canceled, with the same cause, when the first of the holds ends. It
// descends from all of the holds. See [zkrecipes.Hold.Context].
func (hs *Holds) Context() context.Context { return hs.ctx }

// Done returns a channel that is closed when the first hold has ended.
func (hs *Holds) Done() <-chan struct{} { return hs.ctx.Done() }

// Err returns nil while all are held. Afterwards it returns the error of a hold that was lost, or ErrReleased.
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

// ValidUntil returns the time up to which all holds are proven.
func (hs *Holds) ValidUntil() time.Time {
	first := hs.holds[0].ValidUntil()
	for _, h := range hs.holds[1:] {
		if until := h.ValidUntil(); until.Before(first) {
			first = until
		}
	}
	return first
}

// Of returns the hold on a mutex, or nil if the mutex was not passed to [LockAll].
func (hs *Holds) Of(m *Mutex) *zkrecipes.Hold {
	if m == nil {
		return nil
	}
	if i := slices.IndexFunc(hs.taken, m.same); i >= 0 {
		return hs.holds[i]
	}
	return nil
}

// Check asks ZooKeeper whether all holds are still held. See [zkrecipes.Hold.Check].
//
// Errors: the errors of all holds, joined.
func (hs *Holds) Check(ctx context.Context) error {
	return hs.each(func(h *zkrecipes.Hold) error { return h.Check(ctx) })
}

// Txn applies all of ops or none, and only if the contenders of all holds still exist when the leader applies
// them. Paths are as seen by the client of the mutex whose path sorts first. See [zkrecipes.Hold.Txn].
//
// Errors: ErrFenced if one of the holds had ended, and nothing was written; ErrUnknownOutcome if the reply was
// lost; at once, holds of several clients; otherwise the error of the op that failed, and nothing was written.
func (hs *Holds) Txn(ctx context.Context, ops ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	first := hs.taken[0].queue
	var guards []zkrecipes.Op
	var sent error
	for i, m := range hs.taken[1:] {
		h := hs.holds[i+1]
		if err := h.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
		}
		answered, err := hold.Guard(h)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, err)
		}
		defer func() { answered(sent) }()
		path := first.Client().Rel(m.queue.Client().Abs(h.Path()))
		if path == "" || !first.Client().Same(m.queue.Client()) {
			return nil, fmt.Errorf("transaction: %s and %s: want mutexes of one client", first.Path(), m.queue.Path())
		}
		guards = append(guards, zkrecipes.OpCheck(path, -1))
	}
	results, err := hs.holds[0].Txn(ctx, append(guards, ops...)...)
	sent = err
	if err == nil {
		return results[len(guards):], nil
	}
	if errors.Is(err, zk.ErrNoNode) { // a guard has failed, or an op of the caller
		if gone := hs.Check(ctx); errors.Is(gone, zkrecipes.ErrLost) {
			return nil, fmt.Errorf("%w: %w", zkrecipes.ErrFenced, gone)
		}
	}
	return nil, err
}

// Release releases all holds concurrently. See [zkrecipes.Hold.Release].
//
// Errors: the errors of all holds, joined.
func (hs *Holds) Release(ctx context.Context) error {
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
