// Package znode implements queues of contenders: which of them is granted, and how the others wait. A contender is an
// ephemeral sequential node under the parent of its queue, and the order of the sequence numbers is the order of the
// queue (while the counter of the parent lasts: see checkSequence). Each waiter watches the contender that its Rule
// names (an eager one first the contender ahead of that), and its own node if it may be granted without a list. When
// the contender that it watches has left, it is immediately the waiter's turn if the event (armed.go) or the release
// (place.go) is proof enough; otherwise the waiter lists the queue again. A caller that joins needs no list if it
// follows a sibling that was first and is gone (shortcut.go). Siblings are contenders of one Queue in one session;
// those of another Queue on the same path are like those of other clients. Every grant then passes hold.FromTurn, which
// requires a proof of the session.
//
// A mutex, a read-write lock and an election are one queue each. A semaphore is two: the leases, and the door, a lock
// that admits one client at a time to them.
package znode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// Queue holds the contenders under one parent. It is safe for concurrent use. In each session its callers share one
// sharedQueue.
type Queue struct {
	parent    *ephemeral.Parent
	name      string // its name in errors and traces: its path, or the path of its semaphore
	kinds     []string
	config    recipe.Config
	shortcuts bool // see shortcut
	canArm    bool // waiters may be armed: see armed.go
	handOver  zkrecipes.HandOver
	alsoLists *Queue    // listed after each listing of this queue; may be nil
	skipped   sync.Once // guards the log entry about children that are not contenders
	accepted  []string  // kinds of contenders that servers accept

	mu     sync.Mutex
	newest *sharedQueue // that of the newest session
}

// Entry describes what a caller queues with.
type Entry struct {
	Kind string // one of the queue's kinds
	Rule Rule
	As   string // the name of the recipe in traces
	From string // if not empty, a caller inside a hold of this kind takes its place, whatever Rule says; see downgrade
	// Joined, if not nil, is called for each contender that [Queue.Acquire] creates for the caller, with its path and a
	// function that makes the caller leave the queue, unless it is granted first, and join it again at the tail. The
	// function returns false, and has no effect, if the caller no longer waits with that contender. While the hold is
	// being made, it may return true without effect.
	Joined func(path string, rejoin func() bool)
}

// New returns the queue under path. Contenders of the given kinds take part in its order, as do kazoo's counterparts of
// them if config says so.
//
// Errors: if client is nil; if path is relative, malformed or the root.
func New(client *client.Client, path string, config recipe.Config, kinds ...string) (*Queue, error) {
	if client == nil {
		return nil, errors.New("client is nil: create one with conn.Dial")
	}
	if err := paths.Validate(path); err != nil {
		return nil, err
	}
	if path == "/" {
		return nil, errors.New(
			"path \"/\" is the root of the client, which cannot be a queue: want a path below it, such as /app/lock",
		)
	}
	if config.Kazoo {
		kinds = withKazoo(kinds)
	}
	q := newQueue(client, path, config, kinds...)
	q.shortcuts, q.canArm = useShortcuts, useShortcuts && !q.sharedWithKazoo()
	// A waiter can look early only in a queue of a single kind. With several kinds, the rule identifies the contender
	// that blocks it, but not the one ahead of that. Arming works with any kinds.
	if q.canArm && len(kinds) == 1 {
		q.handOver = config.HandOver
	}
	return q, nil
}

// newQueue returns a queue whose waiters always list.
func newQueue(client *client.Client, path string, config recipe.Config, kinds ...string) *Queue {
	q := &Queue{name: path, kinds: kinds, config: config}
	// A parent that kazoo uses too is a plain node: a kazoo object checks only once that it exists, and fails if the
	// server has since removed a container.
	q.parent = &ephemeral.Parent{Client: client, Path: path, Plain: q.sharedWithKazoo()}
	for _, kind := range kinds {
		if q.parent.Check(q.spec(kind)) == nil {
			q.accepted = append(q.accepted, kind)
		}
	}
	return q
}

// check returns the error for a call without a context, and for contenders that no server would accept.
func (q *Queue) check(ctx context.Context, kind string) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", q.name, session.ErrNoContext)
	}
	if slices.Contains(q.accepted, kind) {
		return nil
	}
	return q.parent.Check(q.spec(kind))
}

// Path returns the path of the queue.
func (q *Queue) Path() string { return q.parent.Path }

// Client returns the client of the queue.
func (q *Queue) Client() *client.Client { return q.parent.Client }

// Child returns the path of a child of the queue.
func (q *Queue) Child(name string) string { return q.parent.Path + "/" + name }

// sharedWithKazoo reports whether kazoo uses the queue as well.
func (q *Queue) sharedWithKazoo() bool { return slices.ContainsFunc(q.kinds, isKazoo) }

// spec describes the node to create for a contender of the given kind.
func (q *Queue) spec(kind string) ephemeral.Spec {
	return ephemeral.Spec{Kind: kind, Data: q.config.Data}
}

// begin notifies the tracers that an acquisition begins.
func (q *Queue) begin(ctx context.Context, as string, try bool) (context.Context, *hold.Attempt) {
	start := zkrecipes.AcquireStart{Recipe: as, Name: q.config.TracerName, Path: q.name, Try: try}
	return hold.Begin(ctx, q.parent.Client, start)
}

// sharedIn returns what the callers of the queue share in s.
func (q *Queue) sharedIn(s *session.Session) *sharedQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.newest != nil && q.newest.session.ID() == s.ID():
		return q.newest
	case s.Err() != nil: // if a late caller replaced newest, it would separate the callers of the next session
		return newShared(q, s)
	}
	q.newest = newShared(q, s)
	return q.newest
}

// Acquire joins the queue and waits until the rule grants. If the session ends while it waits, or the contender is
// deleted by hand, the caller queues again at the tail. If Acquire returns an error, the caller has left the queue, and
// its contender is deleted: Acquire waits for that until ctx is done, unless the create itself failed (see
// [ephemeral.Parent.Create]). If the queue is reentrant and ctx descends from a hold on it of the same kind, Acquire
// returns another hold on that contender.
//
// Errors: ErrDeadlock if it would wait for a hold that ctx descends from; *WaitError if ctx is done first;
// ErrSequenceExhausted; ErrForeignContender; ErrClosed; otherwise the server's error.
func (q *Queue) Acquire(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := q.check(ctx, e.Kind); err != nil {
		return nil, err
	}
	if h, ok := q.nested(ctx, e.Kind); ok {
		return h, nil
	}
	waiting, a := q.begin(ctx, e.As, false)
	if h, err := q.downgrade(waiting, e, a); !errors.Is(err, errNotHeld) {
		return a.End(h, err)
	}
	if err := hold.CheckDeadlock(waiting, q.parent, e.Kind, q.conflicting(e.Kind)); err != nil {
		return a.End(nil, err)
	}
	return a.End(q.inSession(waiting, func(s *session.Session) (*zkrecipes.Hold, error) {
		return q.acquireOrRejoin(waiting, s, e, a)
	}))
}

// Try is Acquire for a caller that does not wait. If others are ahead, it returns a *BusyError and leaves nothing
// behind.
func (q *Queue) Try(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := q.check(ctx, e.Kind); err != nil {
		return nil, err
	}
	if h, ok := q.nested(ctx, e.Kind); ok {
		return h, nil
	}
	trying, a := q.begin(ctx, e.As, true)
	if h, err := q.downgrade(trying, e, a); !errors.Is(err, errNotHeld) {
		return a.End(h, err)
	}
	return a.End(q.inSession(trying, func(s *session.Session) (*zkrecipes.Hold, error) {
		l, err := q.current(trying, s) // most refusals cost no write
		if err != nil {
			return nil, err
		}
		if _, granted := e.Rule(append(slices.Clip(l.queue), Contender{Kind: e.Kind}), len(l.queue)); !granted {
			a.At(len(l.queue))
			return nil, q.busy(trying, s, q.head(l), len(l.queue))
		}
		return q.acquire(trying, s, e, a, false, nil)
	}))
}

// AcquireBy is Acquire for a queue without a rule: the contender is granted when turn returns nil. Because other
// callers count the existing contenders, a call whose ctx is done waits a moment longer for its own contender to be
// removed.
func (q *Queue) AcquireBy(
	ctx context.Context, e Entry, turn func(context.Context, *Waiter) error,
) (*zkrecipes.Hold, error) {
	if err := q.check(ctx, e.Kind); err != nil {
		return nil, err
	}
	waiting, a := q.begin(ctx, e.As, false)
	return a.End(q.inSession(waiting, func(s *session.Session) (*zkrecipes.Hold, error) {
		w, err := q.join(waiting, s, q.spec(e.Kind), a, true)
		if err != nil {
			return nil, err
		}
		defer w.awaitRemoved()
		defer w.leaveUnlessGranted()
		if err := turn(waiting, w); err != nil {
			return nil, w.gaveUp(err)
		}
		// Others rely on this turn, which comes only once. It therefore counts even if the node is gone, as the hold will
		// report.
		w.nextConnection = nil
		h, err := w.grant(zkrecipes.Token(w.node.Czxid))
		return h, w.gaveUp(err)
	}))
}

// lasting is how long a contender must have lasted for its deletion not to count as one of many in a row.
const lasting = time.Second

// inSession repeats f in the next session whenever f failed because its session ended. It differs from
// [client.Client.InSession] in three ways: a caller whose contender was deleted by hand queues again in the same
// session, after a pause if that happens again and again; once the session has ended, no error is a reason to stop, not
// even a create of unknown outcome, since what it created goes with its session; and if ctx is done, the error is a
// *WaitError.
func (q *Queue) inSession(
	ctx context.Context, f func(*session.Session) (*zkrecipes.Hold, error),
) (*zkrecipes.Hold, error) {
	var remakes session.Remakes
	for {
		s, err := q.parent.Client.Session(ctx)
		// Closed, even if the state does not show it yet, or the credentials are rejected.
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		if err == nil {
			var h *zkrecipes.Hold
			began := time.Now()
			if h, err = f(s); err == nil {
				return h, nil
			}
			switch {
			case ctx.Err() != nil:
			case s.Err() != nil && q.parent.Client.State() != zkrecipes.Closed:
				continue
			case errors.Is(err, ephemeral.ErrGone):
				if time.Since(began) >= lasting {
					remakes = session.Remakes{}
				}
				if err = remakes.Pause(ctx, err); err == nil {
					continue
				}
			}
		}
		var waited *zkrecipes.WaitError
		switch {
		case q.parent.Client.State() == zkrecipes.Closed,
			errors.Is(err, zkrecipes.ErrClosed) && (ctx.Err() == nil || !session.EndedBy(ctx, err)):
			return nil, fmt.Errorf("%s: %w", q.name, zkrecipes.ErrClosed)
		case ctx.Err() != nil && !errors.As(err, &waited):
			if err = inTheWay(ctx, s, err); !session.EndedBy(ctx, err) {
				err = errors.Join(session.CauseOf(ctx), err)
			}
			return nil, &zkrecipes.WaitError{Path: q.name, Err: err}
		default:
			return nil, err
		}
	}
}

var errRejoin = errors.New("leaving the queue, to join it again")

// acquireOrRejoin is acquire for a caller that may be made to leave the queue. It then returns ErrGone, as if the
// contender had been deleted by hand. The contender is removed in the background, as whenever the context of a wait is
// done.
func (q *Queue) acquireOrRejoin(
	ctx context.Context, s *session.Session, e Entry, a *hold.Attempt,
) (*zkrecipes.Hold, error) {
	if e.Joined == nil {
		return q.acquire(ctx, s, e, a, true, nil)
	}
	waiting, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	h, err := q.acquire(waiting, s, e, a, true, func() bool {
		leave(errRejoin)
		return errors.Is(context.Cause(waiting), errRejoin)
	})
	if err != nil && errors.Is(context.Cause(waiting), errRejoin) {
		return nil, ephemeral.ErrGone
	}
	return h, err
}

// acquire is one acquisition in one session. Its turn comes by a list, an event or the release of a sibling (takeTurn),
// or by its number (shortcut). rejoin is for e.Joined.
func (q *Queue) acquire(
	ctx context.Context, s *session.Session, e Entry, a *hold.Attempt, waits bool, rejoin func() bool,
) (*zkrecipes.Hold, error) {
	shortcut := q.sharedIn(s).shortcut
	vacancy := shortcut.take()
	w, err := q.join(ctx, s, q.spec(e.Kind), a, !vacancy.exists() || !shortcut.reliable())
	if err != nil {
		return nil, err
	}
	defer w.leaveUnlessGranted() // even if a rule panics
	if e.Joined != nil {
		e.Joined(w.Path(), rejoin)
	}
	if shortcut.follows(vacancy, w) {
		w.seen = sight{position: 1, of: 1}
		a.At(0)
	} else if _, err := w.takeTurn(e.Rule, waits); err != nil {
		return nil, w.gaveUp(err)
	}
	w.shared.sections.granted(w.wait, w.creation)
	shortcut.noteFirst(w)
	h, err := w.grant(zkrecipes.Token(w.node.Czxid))
	return h, w.gaveUp(err)
}

// takeTurn is the loop of every queue. It returns when the rule grants the waiter's contender, with the listing that
// shows it, or nil if an event or a release did.
//
// Errors: *BusyError if others are ahead of a waiter that does not wait; ErrDeadlock if whoever it would wait for waits
// for a hold that the waiter's context descends from.
func (w *Waiter) takeTurn(rule Rule, waits bool) (*listing, error) {
	w.lookBesideList()
	for {
		l, me, err := w.locate(nil)
		if err != nil {
			return nil, err
		}
		predecessor, granted := rule(l.queue, me)
		if granted {
			w.seen = sight{position: me + 1, of: len(l.queue)}
			if w.tooMany == nil { // otherwise the leases have yet to be counted
				w.attempt.At(me)
			}
			return l, nil
		}
		w.saw(l, me)
		if !waits {
			return nil, w.queue.busy(w.ctx, w.session, w.seen.head, w.seen.among)
		}
		if err := hold.CheckDeadlockBehind(w.ctx, w.queue.parent, w.node.Kind, l.queue[:predecessor]); err != nil {
			return nil, err
		}
		// The listing can be freed while the waiter waits.
		turn, err := w.await(w.ctx, w.obstacleOf(l.queue, me, predecessor, rule))
		if turn { // no list was read
			left := 1
			if len(w.queue.kinds) == 1 {
				left = w.seen.position - 1 // the waiter is first
			}
			w.seen = sight{position: w.seen.position - left, of: w.seen.of - left}
		}
		if err != nil || turn {
			return nil, err
		}
	}
}

// current returns a sorted listing at least as recent as the leader's state when current was called. A queue without a
// parent is empty.
func (q *Queue) current(ctx context.Context, s *session.Session) (*listing, error) {
	// Otherwise a lagging server would cause refusals for too long.
	if err := s.Sync(ctx, q.parent.Path); err != nil {
		return nil, err
	}
	l := q.sharedIn(s).list()
	if err := l.wait(ctx, s); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	l.sort()
	return l, q.refuseForeign(ctx, s, l.others)
}

// busy returns the error of a try that found n contenders, the first of them at the path head, which may be empty.
func (q *Queue) busy(ctx context.Context, s *session.Session, head string, n int) error {
	e := &zkrecipes.BusyError{Path: q.name, Queue: n}
	if head != "" {
		data, stat, err := s.Get(ctx, head)
		switch {
		case err == nil:
			e.Holder = participant(head, data, stat)
		case !errors.Is(err, zk.ErrNoNode):
			return errors.Join(e, err)
		}
	}
	return e
}

// head returns the path of the contender at the head of a sorted listing, or "" if there is none.
func (q *Queue) head(l *listing) string {
	if len(l.queue) == 0 {
		return ""
	}
	return q.Child(l.queue[0].Name)
}

func participant(path string, data []byte, stat zk.Stat) zkrecipes.Participant {
	return zkrecipes.Participant{
		Path: path, Data: data, Name: NameIn(data), Token: zkrecipes.Token(stat.Czxid), Session: stat.EphemeralOwner,
		Since: time.UnixMilli(stat.Ctime),
	}
}

// NameIn returns the data of a contender as a name, or "" if it is not one.
func NameIn(data []byte) string {
	if string(data) == layout.RevokeRequest || !utf8.Valid(data) {
		return ""
	}
	return string(data)
}
