package znode

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// await waits until there is reason to look again: what is watched has changed, the rule may have, the connection was
// away, or nothing has happened for so long that an event may have been lost.
func (q *Queue) await(ctx context.Context, s *session.Session, v *view, l *listing, predecessor int,
	changed Changes,
) error {
	for {
		w, moved, err := q.watch(ctx, s, v, l, predecessor)
		if moved || err != nil {
			return err
		}
		timer := time.NewTimer(unnamed)
		again, err := q.pause(ctx, s, v, w, changed, timer)
		timer.Stop()
		if !again {
			return err
		}
	}
}

// unnamed is how long one waits before it reads who holds the lock, to be able to say so when it gives up. Most waits
// are over by then, and one request shorter.
const unnamed = 50 * time.Millisecond

// pause is one wait for the watch; again says that an event may have been lost, and only what is watched is to be read
// again: a thousand waiters must not each list a thousand.
func (q *Queue) pause(ctx context.Context, s *session.Session, v *view, w *session.Watch, changed Changes, timer *time.Timer) (again bool, _ error) {
	for named := false; ; named = true {
		select {
		case <-w.Fired():
			return false, nil
		case <-changed[0].Fired():
			return false, nil
		case <-changed[1].Fired():
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-s.Done():
			return false, s.Err()
		case <-timer.C:
		}
		if named {
			return true, nil
		}
		v.name(s)
		timeout := s.Timeout()
		timer.Reset(2*timeout + rand.N(timeout) - unnamed)
	}
}

// watch sets the watch on the predecessor, or on the whole list, and reports whether it has moved on since the listing.
// It watches with getData, which leaves no watch behind on a node that has gone already.
func (q *Queue) watch(ctx context.Context, s *session.Session, v *view, l *listing, predecessor int) (_ *session.Watch, moved bool, _ error) {
	if predecessor == Anyone {
		names, w, err := s.ChildrenW(ctx, q.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, true, nil
		}
		queue, _ := arrange(names, q.kinds)
		l.sort()
		return w, !slices.Equal(queue, l.queue), err
	}
	path := q.path + "/" + l.queue[predecessor].Name
	data, stat, w, err := s.GetW(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, true, nil
	}
	if err == nil && predecessor == 0 {
		v.setHolder(participant(path, data, stat))
	}
	return w, false, err
}

// view is what a waiter has seen of the queue, for the error when it gives up.
type view struct {
	queue *Queue
	ctx   context.Context //nolint:containedctx // lives as long as one call

	position, of int
	head         string // its path

	mu     sync.Mutex
	holder zkrecipes.Participant
}

// saw notes the caller's place.
func (v *view) saw(l *listing, me int) {
	v.position, v.of = me+1, len(l.queue)
	v.head = v.queue.path + "/" + l.queue[0].Name
}

// name asks who is at the head, beside the wait, if that is not known already and anybody can come to want it.
func (v *view) name(s *session.Session) {
	path := v.head
	v.mu.Lock()
	known := v.holder.Path == path
	v.mu.Unlock()
	if known || v.ctx.Done() == nil {
		return
	}
	s.Go(func(ctx context.Context) {
		if data, stat, err := s.Get(ctx, path); err == nil {
			v.setHolder(participant(path, data, stat))
		}
	})
}

func (v *view) setHolder(p zkrecipes.Participant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holder = p
}

// gaveUp turns the end of ctx into a WaitError.
func (v *view) gaveUp(err error) error {
	if err == nil || v.ctx.Err() == nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return &zkrecipes.WaitError{Path: v.queue.path, Position: v.position, Of: v.of, Holder: v.holder, Err: context.Cause(v.ctx)}
}
