package znode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// Semaphore grants leases in order. A caller queues at the door, which is a queue of its own, and stays there until
// there are enough leases for it. At most one caller therefore waits with leases that exceed the limit, and counting
// the leases shows whether it is granted.
//
// Exclusion does not depend on the door. Of the callers that hold leases, take the one whose leases are last. It
// counted all the others' before it was granted, so together they are within the limit. Progress does depend on the
// door, because Curator's clients also count the leases behind their own: two callers that waited with leases would
// each wait for the other. Therefore a caller that loses the door while it waits gives its leases back.
//
// A caller that has read that there are enough leases takes its own and gives up the door in one transaction, which
// fails if the door is no longer its own. It read that count after it was first at the door, so only a client without
// the door can have taken leases since. The caller counts again after the transaction. If there are too many then, it
// gives its leases back and queues again at the tail.
//
// Source: Curator's InterProcessSemaphoreV2, which creates the leases, counts them all and then gives up the door.
type Semaphore struct {
	path         string
	door, leases *Queue
	// Whether it was logged that others have a larger limit.
	warned atomic.Bool
}

// Leases describes what a caller wants from a semaphore. It gets either all of them or none.
type Leases struct {
	Count int
	// Limit returns this caller's limit, and a watch that fires when it may have changed, or nil if it cannot change.
	Limit func(ctx context.Context, s *session.Session) (int, *session.Watch, error)
	As    string // the name of the recipe in traces
}

// tooMany reports whether these leases would exceed the limit together with the given number of existing ones. It is
// only used for errors, and reports false if the limit cannot be read.
func (l Leases) tooMany(ctx context.Context, s *session.Session, existing int) bool {
	if existing == 0 {
		return false
	}
	limit, _, err := l.Limit(ctx, s)
	return err == nil && existing+l.Count > limit
}

// NewSemaphore returns the semaphore under path. If config says so, it has kazoo's layout, in which the node at path
// has the given data if it has to be created. Errors: those of New.
//
// kazoo's semaphore cannot be configured to count other names at its door, nor nodes other than the children of path as
// leases. It counts all of these, so contenders at the door have kazoo's names, and all children of path are leases.
//
// Source: kazoo's Semaphore, which counts, takes its lease and gives up the door in three requests.
func NewSemaphore(client *client.Client, path string, config recipe.Config, data []byte) (*Semaphore, error) {
	if _, err := New(client, path, config); err != nil {
		return nil, err
	}
	m := &Semaphore{path: path}
	// Neither queue uses shortcuts: the leases are counted together with the list of the door.
	if config.Kazoo {
		m.leases, m.door = newQueue(client, path, config, Lease, KazooLease),
			newQueue(client, path+layout.KazooDoor, config, KazooLock)
		m.leases.parent.Seed = data
	} else {
		m.leases, m.door = newQueue(client, path+"/"+layout.Leases, config, Lease),
			newQueue(client, path+"/"+layout.Door, config, Lock)
	}
	m.door.alsoLists = m.leases
	m.leases.name, m.door.name = path, path
	return m, nil
}

// atDoor describes the node to create at the door.
func (m *Semaphore) atDoor() ephemeral.Spec { return m.door.spec(m.door.kinds[0]) }

// spec describes the nodes to create for n leases.
func (m *Semaphore) spec(n int) ephemeral.Spec {
	want := m.leases.spec(Lease)
	want.Count = n
	return want
}

// Client returns the client of the semaphore.
func (m *Semaphore) Client() *client.Client { return m.leases.Client() }

// List returns the granted leases. The answer is at least as recent as the call.
//
// Leases that exceed the limit belong to the first contender at the door, and are not granted. Its session may hold
// granted leases too, but the ungranted ones are its newest, and share one transaction. The limit is read after the
// leases, because an earlier, larger one would make them appear to be granted. It is 0 if it cannot be read.
func (m *Semaphore) List(ctx context.Context, limit func(context.Context) int) ([]zkrecipes.Participant, error) {
	out, err := m.leases.List(ctx)
	if err != nil || len(out) <= limit(ctx) {
		return out, err
	}
	first, err := m.door.First(ctx)
	if err != nil {
		return nil, err
	}
	if first.Path == "" { // nobody is at the door
		return out, nil
	}
	for _, newest := range slices.Backward(out) {
		if newest.Session == first.Session {
			if newest.Token > first.Token { // otherwise it was granted before first came to the door
				out = slices.DeleteFunc(out, func(p zkrecipes.Participant) bool { return p.Token == newest.Token })
			}
			break
		}
	}
	return out, nil
}

// Waiting returns the contenders at the door in order. The answer is at least as recent as the call. The first may
// already have its leases.
func (m *Semaphore) Waiting(ctx context.Context) ([]zkrecipes.Participant, error) {
	return m.door.List(ctx)
}

// Acquire waits for the leases. See [Queue.Acquire].
func (m *Semaphore) Acquire(ctx context.Context, want Leases) (*zkrecipes.Hold, error) {
	if err := m.check(ctx, want); err != nil {
		return nil, err
	}
	waiting, a := m.leases.begin(ctx, want.As, false)
	return a.End(m.leases.inSession(waiting, func(s *session.Session) (*zkrecipes.Hold, error) {
		return m.acquire(waiting, s, want, a, true)
	}))
}

// Try is Acquire for a caller that waits neither for leases nor at the door. If there are too few leases, or others are
// at the door, it returns a *BusyError and leaves nothing behind.
func (m *Semaphore) Try(ctx context.Context, want Leases) (*zkrecipes.Hold, error) {
	if err := m.check(ctx, want); err != nil {
		return nil, err
	}
	trying, a := m.leases.begin(ctx, want.As, true)
	return a.End(m.leases.inSession(trying, func(s *session.Session) (*zkrecipes.Hold, error) {
		l, err := m.leases.current(trying, s)
		if err == nil {
			err = m.refuseOtherLayout(l)
		}
		if err != nil {
			return nil, err
		}
		limit, changed, err := want.Limit(trying, s)
		if err != nil {
			return nil, err
		}
		if len(l.queue)+want.Count > limit {
			if len(l.queue) > limit && changed == nil && !m.warned.Load() {
				m.warn(m.granted(trying, s, l), limit, changed)
			}
			a.At(min(1, len(l.queue))) // as in saw
			return nil, m.leases.busy(trying, s, m.leases.head(l), len(l.queue))
		}
		return m.acquire(trying, s, want, a, false)
	}))
}

// check returns the error for a call without a context, and for leases that no server would accept together with the
// deletion of a node at the door.
func (m *Semaphore) check(ctx context.Context, want Leases) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", m.leases.name, session.ErrNoContext)
	}
	c := m.spec(want.Count)
	c.Instead = []string{m.door.parent.Sample(m.door.kinds[0])}
	return m.leases.parent.Check(c)
}

// granted returns how many leases of a listing are granted. A caller that waits for others to leave has its leases
// already and is at the door, so the count is valid only if nobody is there while these leases exist. If that cannot be
// shown, granted returns 0.
func (m *Semaphore) granted(ctx context.Context, s *session.Session, before *listing) int {
	door := m.door.sharedIn(s).list()
	after := door.also
	for _, l := range []*listing{door, after} {
		if err := l.wait(ctx, s); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return 0
		}
	}
	if len(door.queue) > 0 || !door.sentOnce() {
		return 0
	}
	n := 0
	for _, c := range before.queue {
		if after.index(c) >= 0 {
			n++
		}
	}
	return n
}

// fits reports whether count more leases are within the limit when others have already been granted, and warns if these
// alone exceed it.
func (m *Semaphore) fits(others, count, limit int, changed *session.Watch) bool {
	m.warn(others, limit, changed)
	return others+count <= limit
}

// warn logs once that the leases of others exceed the limit, unless the limit may have been lowered.
func (m *Semaphore) warn(others, limit int, changed *session.Watch) {
	if others > limit && changed == nil && m.warned.CompareAndSwap(false, true) {
		m.Client().Logger().Warn("zookeeper: more leases are held than our limit allows: other clients use a larger limit",
			"path", m.path, "limit", limit, "leases", others)
	}
}

// acquire is one acquisition in one session.
func (m *Semaphore) acquire(
	ctx context.Context, s *session.Session, want Leases, a *hold.Attempt, waits bool,
) (*zkrecipes.Hold, error) {
	door, err := m.door.join(ctx, s, m.atDoor(), a, true)
	if err != nil {
		return nil, err
	}
	defer door.leaveUnlessGranted() // even if the limit panics
	door.tooMany = want.tooMany
	out, err := m.awaitDoor(door, waits)
	if err == nil {
		err = m.refuseOtherLayout(out)
	}
	if err != nil {
		return nil, door.gaveUp(err)
	}
	limit, changed, err := want.Limit(ctx, s)
	if err != nil {
		return nil, door.gaveUp(err)
	}
	enough := m.fits(len(out.queue), want.Count, limit, changed)
	seen := sight{position: 1, of: max(1, door.seen.of)}
	if !enough && len(out.queue) > 0 { // as in saw
		seen = sight{2, max(2, door.seen.of), m.leases.head(out), len(out.queue)}
	}
	a.At(seen.position - 1)
	if !enough && !waits {
		out.sort()
		return nil, m.leases.busy(ctx, s, m.leases.head(out), len(out.queue))
	}
	c := m.spec(want.Count)
	if enough {
		c.Instead = door.node.Paths
	}
	w, err := m.leases.join(ctx, s, c, a, enough)
	if err != nil {
		door.seen = seen
		return nil, door.gaveUp(err)
	}
	defer w.leaveUnlessGranted()
	w.seen = seen
	door.endRetention() // from here on, w keeps the session proven
	if enough {
		err = m.countAgain(w, want, limit, changed)
	} else {
		err = m.waitForLeases(w, door, want, limit, changed)
	}
	if err != nil {
		return nil, w.gaveUp(err)
	}
	h, err := w.grant(zkrecipes.Token(w.node.Czxid))
	if err != nil {
		return nil, w.gaveUp(err)
	}
	if enough {
		door.node.DeletedInTxn()
	}
	door.leaveInBackground()
	return h, nil
}

// awaitDoor waits until the caller is first at the door. It returns a listing of the leases that was read after that.
//
// Errors: those of takeTurn.
func (m *Semaphore) awaitDoor(door *Waiter, waits bool) (*listing, error) {
	l, err := door.takeTurn(First, waits)
	if err != nil {
		return nil, err
	}
	// The list of the door shows that the caller was first when it was read, and the leases were read after it. If the
	// list of the door was sent twice, the leases may have been read between the two, so they are read again.
	out := l.also
	if !l.sentOnce() {
		out = m.leases.sharedIn(door.session).list()
	}
	if err := out.wait(door.ctx, door.session); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	out.sort() // others may share the listing and sort it as well
	return out, m.leases.refuseForeign(door.ctx, door.session, out.others)
}

// refuseOtherLayout returns an error if a path with kazoo's layout has leases in Curator's: neither library would count
// the other's.
func (m *Semaphore) refuseOtherLayout(out *listing) error {
	for _, c := range out.queue {
		if c.Name == layout.Leases {
			return &session.OpError{Op: "acquire", Path: m.leases.Child(layout.Leases), Err: fmt.Errorf(
				"%w: the semaphore also has Curator's layout: use the option WithKazoo in all programs, and delete this node",
				zkrecipes.ErrForeignContender)}
		}
	}
	return nil
}

// countAgain returns ErrGone if the leases created as the door was given up exceed the limit after all. The limit is at
// least as recent as the list of the leases.
func (m *Semaphore) countAgain(w *Waiter, want Leases, limit int, changed *session.Watch) error {
	_, others, err := w.locate(nil)
	if err == nil && changed.HasFired() {
		limit, changed, err = want.Limit(w.ctx, w.session)
	}
	if err == nil && !m.fits(others, want.Count, limit, changed) {
		err = ephemeral.ErrGone
	}
	return err
}

// waitForLeases waits at the door until the leases of w and those ahead of them are within the limit. It checks again
// when the leases, the limit or the door have changed, or an event about one of them may have been lost.
func (m *Semaphore) waitForLeases(w, door *Waiter, want Leases, limit int, limitChanged *session.Watch) error {
	var doorChanged *session.Watch
	recheck := false
	for {
		w.beforeList()
		names, leasesChanged, err := w.session.ChildrenW(w.ctx, m.leases.Path())
		if err != nil {
			return goneIfNoNode(err)
		}
		l, others, err := w.locate(m.leases.listingOf(names))
		if err != nil {
			return err
		}
		if recheck || limitChanged.HasFired() {
			if limit, limitChanged, err = want.Limit(w.ctx, w.session); err != nil {
				return err
			}
		}
		// First at the door, and no other caller has leases.
		w.seen = sight{position: 1, of: max(1, door.seen.of)}
		if m.fits(others, want.Count, limit, limitChanged) {
			return nil
		}
		if others > 0 {
			// Behind those that have leases.
			w.seen = sight{2, max(2, door.seen.of), m.leases.head(l), len(l.queue)}
		}
		if recheck || doorChanged == nil || doorChanged.HasFired() {
			if _, _, doorChanged, err = w.session.GetW(w.ctx, door.node.Paths[0]); err != nil {
				return goneIfNoNode(err)
			}
		}
		if recheck, err = w.pause(w.ctx, leasesChanged.Fired(), limitChanged.Fired(), doorChanged.Fired()); err != nil {
			return err
		}
	}
}
