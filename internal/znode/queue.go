// Package znode has what all recipes share: contenders under a parent in the order of their sequence numbers, made so
// that a lost answer leaves none behind, and one loop in which each waits for the one ahead of it.
package znode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Queue is the line of contenders under one parent. It holds no state of its callers and is safe for concurrent use.
type Queue struct {
	client        *session.Client
	path          string
	kinds         []string
	lossOnSuspend bool
	foreign       sync.Once

	mu      sync.Mutex
	current *lister // of the newest session
}

// Entry is what a caller queues with.
type Entry struct {
	Kind string // one of the queue's
	Data []byte
	Rule Rule
	// Key is empty for a sequence number of the server's. A reader that takes its writer's place brings the writer's.
	Key string
	// Count is how many contenders to make, in one transaction; 0 is one.
	Count int
	// Look is asked for the rule before every look at the queue, if that is not always the same, and for what tells
	// that it may have changed; nil is Rule, for ever.
	Look func(ctx context.Context, s *session.Session) (Rule, Changes, error)
	// Waiting is called before every wait; nil is nothing.
	Waiting func()
	// Next is called after every wait for the one ahead, to read what else is wanted from a time when one is first: that
	// is after the listing, or, with nil, from now on, if one is first without another wait. Nil is nothing.
	Next func(after *listing)
	// Lazy leaves the node unwatched once it is granted, until somebody calls the grant's watch.
	Lazy bool

	// Of a Pool: what it has counted, and the node that is deleted in the transaction that makes the contenders.
	known *survey
	leave *node
	// Of Beside: that of the place; 0 is its own.
	token zkrecipes.Token
}

// Changes tell that a rule may have changed, when one of them has fired; nil ones never do.
type Changes [2]*session.Watch

func (c Changes) haveFired() bool { return c[0].HasFired() || c[1].HasFired() }

// look returns the rule as it is now.
func (e *Entry) look(ctx context.Context, s *session.Session) (Rule, Changes, error) {
	if e.Look == nil {
		return e.Rule, Changes{}, nil
	}
	return e.Look(ctx, s)
}

// New returns the queue under path; kinds are the contenders that take part in its order.
func New(client *conn.Client, path string, lossOnSuspend bool, kinds ...string) (*Queue, error) {
	if client == nil {
		return nil, errors.New("client is nil: want one made by conn.Dial")
	}
	if err := session.ValidatePath(path); err != nil {
		return nil, err
	}
	if path == "/" {
		return nil, errors.New("path \"/\" is the root, which cannot be a queue: want a path such as /app/lock")
	}
	return &Queue{client: (*session.Client)(client), path: path, kinds: kinds, lossOnSuspend: lossOnSuspend}, nil
}

// Path returns the path of the queue.
func (q *Queue) Path() string { return q.path }

// Client returns the client of the queue.
func (q *Queue) Client() *session.Client { return q.client }

// lister returns the lister for s.
func (q *Queue) lister(s *session.Session) *lister {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current == nil || q.current.session.ID() != s.ID() {
		q.current = newLister(q, s)
	}
	return q.current
}

// errRequeue says that the caller's contender is gone, with its session or by somebody's hand, while it waited.
var errRequeue = errors.New("the contender is gone")

// Acquire queues and waits until the rule grants. When the session ends meanwhile, or somebody deletes the contender,
// it queues again, at the tail. After an error the caller is not in the queue, or its contender is being removed.
//
// Errors: *WaitError when ctx ends; ErrSequenceExhausted; ErrClosed; otherwise what the server said.
func (q *Queue) Acquire(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := q.check(e); err != nil {
		return nil, err
	}
	return q.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) { return q.acquire(ctx, s, e, true) })
}

// Try is Acquire for a caller that does not wait: with others ahead of it, it gets a *BusyError, and leaves nothing
// behind.
func (q *Queue) Try(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := q.check(e); err != nil {
		return nil, err
	}
	return q.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		// Most that fail can be told without a write. The sync keeps a server that lags from saying no too long.
		if err := s.Sync(ctx, q.path); err != nil {
			return nil, err
		}
		l := q.lister(s).ask()
		err := l.wait(ctx, s)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		l.sort()
		if _, granted := e.Rule(append(slices.Clip(l.queue), Contender{Kind: e.Kind}), len(l.queue)); !granted {
			return nil, q.busy(ctx, s, l)
		}
		return q.acquire(ctx, s, e, false)
	})
}

// inSession repeats f in one session after the other, as long as what ends it is the end of its session.
func (q *Queue) inSession(ctx context.Context, f func(*session.Session) (*zkrecipes.Hold, error)) (*zkrecipes.Hold, error) {
	for {
		s, err := q.client.Session(ctx)
		if err == nil {
			var h *zkrecipes.Hold
			if h, err = f(s); err == nil {
				return h, nil
			}
			if ctx.Err() == nil && (errors.Is(err, errRequeue) || s.Err() != nil && q.client.State() != session.Closed) {
				continue
			}
		}
		var waited *zkrecipes.WaitError
		switch {
		case q.client.State() == session.Closed:
			return nil, fmt.Errorf("%s: %w", q.path, zkrecipes.ErrClosed)
		case ctx.Err() != nil && !errors.As(err, &waited):
			return nil, &zkrecipes.WaitError{Path: q.path, Err: errors.Join(context.Cause(ctx), besides(ctx, err))}
		default:
			return nil, err
		}
	}
}

// besides returns err unless it says no more than the cause of ctx.
func besides(ctx context.Context, err error) error {
	if errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// acquire is the queue loop. Every way out of it but a grant removes the contender.
func (q *Queue) acquire(ctx context.Context, s *session.Session, e Entry, wait bool) (_ *zkrecipes.Hold, err error) {
	release := s.Retain()
	n, l, err := q.create(ctx, s, e)
	if err != nil {
		release()
		return nil, err
	}
	var h *zkrecipes.Hold
	defer func() { // also when a rule panics
		if h != nil {
			return
		}
		removed := n.remove()
		release()
		_ = removed.wait(ctx) // nothing is left behind, unless ctx ends first; then the removal goes on
	}()
	if err := n.checkKeys(); err != nil {
		return nil, err
	}
	v := view{queue: q, ctx: ctx}
	for {
		rule, changed, err := e.look(ctx, s)
		if err != nil {
			return nil, v.gaveUp(err)
		}
		if l == nil {
			l = q.lister(s).ask()
		}
		err = l.wait(ctx, s)
		if errors.Is(err, zk.ErrNoNode) {
			err = errRequeue // somebody deleted the queue, us included
		}
		if err != nil {
			return nil, v.gaveUp(err)
		}
		// Nothing is granted on an event: what counts is what is read in our session after the event. A list without
		// us says that we are not in the queue, never that we are first; or, when it was on its way together with the
		// create, that it was read too early.
		me := l.place(n)
		if me < 0 {
			if l, err = q.missing(ctx, s, n); err != nil {
				return nil, v.gaveUp(err)
			}
			continue
		}
		if n.behindItself(l.queue[:me]) {
			return nil, errRequeue // it would wait for itself; the removal sweeps
		}
		predecessor, granted := rule(l.queue, me)
		if granted {
			if me == 0 {
				n.succession.lead(n)
			}
			h, err = q.grant(ctx, s, n, release, e)
			return h, v.gaveUp(err)
		}
		if !wait {
			return nil, q.busy(ctx, s, l)
		}
		v.saw(l, me)
		if e.Waiting != nil {
			e.Waiting()
		}
		if err := q.await(ctx, s, &v, l, predecessor, changed); err != nil {
			return nil, v.gaveUp(err)
		}
		if predecessor == Anyone {
			l = nil
			continue
		}
		var first bool
		if l, first = q.woken(ctx, s, n, e, l.queue[predecessor].Name, predecessor == 0); first {
			n.succession.lead(n)
			h, err = q.grant(ctx, s, n, release, e)
			return h, v.gaveUp(err)
		}
	}
}

// woken is called after a wait for the one ahead, which was seen to be first or not. It reports whether n is first now,
// and if it cannot say, it may return a listing that is on its way.
func (q *Queue) woken(ctx context.Context, s *session.Session, n *node, e Entry, ahead string, wasFirst bool) (l *listing, first bool) {
	if e.Next != nil {
		if !wasFirst && !n.succession.leads(ahead) {
			l = q.lister(s).ask()
			e.Next(l)
			return l, false
		}
		e.Next(nil)
	}
	return nil, e.Look == nil && q.succeeds(ctx, s, n, ahead)
}

// missing is called when a list lacks our contender; it returns a newer list that has it, or errRequeue.
func (q *Queue) missing(ctx context.Context, s *session.Session, n *node) (*listing, error) {
	for _, path := range n.paths {
		exists, _, err := s.Exists(ctx, path)
		if err != nil {
			return nil, err
		}
		if !exists {
			return nil, errRequeue
		}
	}
	return q.lister(s).ask(), nil
}

// busy says who is ahead.
func (q *Queue) busy(ctx context.Context, s *session.Session, l *listing) error {
	e := &zkrecipes.BusyError{Path: q.path, Queue: len(l.queue)}
	if len(l.queue) > 0 {
		path := q.path + "/" + l.queue[0].Name
		data, stat, err := s.Get(ctx, path)
		switch {
		case err == nil:
			e.Holder = participant(path, data, stat)
		case !errors.Is(err, zk.ErrNoNode):
			return errors.Join(e, err)
		}
	}
	return e
}

func participant(path string, data []byte, stat zk.Stat) zkrecipes.Participant {
	return zkrecipes.Participant{
		Path: path, ID: string(data), Token: zkrecipes.Token(stat.Czxid), Session: stat.EphemeralOwner,
		Since: time.UnixMilli(stat.Ctime),
	}
}
