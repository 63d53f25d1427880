package znode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Member is the name of the members of a double barrier, up to the sequence number.
const Member = "member-"

// Rounds lets members in by n. A member is a contender under the path. A client that finds n members waiting lets the first
// n of them in, in one transaction that writes the round into each of their nodes. The transaction fails unless all n exist and
// none was let in before. So at that instant n members were there, each is let in once, and no flag is left that could let
// in another one.
type Rounds struct {
	queue *Queue
	n     int
}

// Round is what the node of a member says after it was let in. Its members are all whose keys are in the range: they were the
// first that waited, and every later member has a greater key.
type Round struct {
	First, Last string // keys
	Zxid        int64  // of the transaction
}

// NewRounds returns the rounds of n members under path. Errors: those of New; n below 1.
func NewRounds(client *conn.Client, path string, n int) (*Rounds, error) {
	q, err := New(client, path, false, Member)
	if n < 1 {
		err = errors.Join(err, fmt.Errorf("%d members: want at least 1", n))
	}
	if err != nil {
		return nil, err
	}
	return &Rounds{q, n}, nil
}

// Enter waits until the caller is in a round. See [Queue.Acquire] for sessions and errors.
func (r *Rounds) Enter(ctx context.Context, data []byte, as Label) (h *zkrecipes.Hold, round Round, err error) {
	want := contenders{kind: Member, data: data}
	if err := r.queue.check(want); err != nil {
		return nil, Round{}, err
	}
	ctx, want.attempt = r.queue.begin(ctx, as, r.queue.path, false)
	h, err = want.attempt.end(r.queue.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		w, l, err := r.queue.join(ctx, s, want, true)
		if err != nil {
			return nil, err
		}
		defer w.leaveUnlessGranted()
		if round, err = r.await(w, l); err != nil {
			return nil, w.gaveUp(err)
		}
		h, err := w.grant(zkrecipes.Token(w.node.czxid))
		return h, w.gaveUp(err)
	}))
	return h, round, err
}

// await waits until the own node says that it is in a round. The member that completes a round lets it in. Any other waiter
// does so when it looks again, if that member has stopped before.
func (r *Rounds) await(w *waiter, l *listing) (Round, error) {
	var hangups session.Hangups
	for ; ; l = nil {
		// The watch is set before the list is read. So a round that the list does not show yet fires it.
		data, stat, changed, err := w.session.GetW(w.ctx, w.node.paths[0])
		if err != nil {
			return Round{}, requeueIfGone(err)
		}
		if stat.Version > 0 {
			return parseRound(w.node.paths[0], data, stat)
		}
		l, me, err := w.place(l)
		if err != nil {
			return Round{}, err
		}
		w.attempt.at(me)
		l.sort()
		again, err := r.letIn(w, l.queue, &hangups)
		if err != nil {
			return Round{}, err
		}
		if again {
			continue
		}
		w.position, w.of = me+1, len(l.queue)
		if _, err := w.pause(w.ctx, changed); err != nil {
			return Round{}, err
		}
	}
}

// letIn lets the first n waiting members in, if there are as many. Again says that there were, so that the caller looks at
// its own node next, whether it was let in, another client was faster, or a member has left.
func (r *Rounds) letIn(w *waiter, members []Contender, hangups *session.Hangups) (again bool, err error) {
	if len(members) < r.n {
		return false, nil
	}
	waiting, err := r.waiting(w, members)
	if err != nil || len(waiting) < r.n {
		return false, err
	}
	waiting = waiting[:r.n]
	span := waiting[0].Key + "-" + waiting[r.n-1].Key
	var ops []any
	size := 0
	for _, m := range waiting {
		data := slices.Concat([]byte(span+" "), m.data)
		size += len(m.Name) + len(data)
		ops = append(ops, &zk.SetDataRequest{Path: r.queue.path + "/" + m.Name, Data: data, Version: 0})
	}
	_, err = w.session.Multi(w.ctx, ops...)
	err = hangups.Judge(size, err)
	switch {
	case err == nil, errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return true, nil
	case errors.Is(err, zkrecipes.ErrUnknownOutcome) && !wire.ServerFault(err) && !errors.Is(err, session.ErrTooLarge):
		return true, sleep(w.ctx, retryPause) // the own node tells; a second copy is refused for its versions
	default:
		return false, err
	}
}

// waitingMember is a member as it was read.
type waitingMember struct {
	Contender
	data  []byte
	waits bool // it was not let in yet
}

// waiting reads which of the members wait. A create that was sent again may have made two nodes, of which the first counts,
// also if that one was let in before.
func (r *Rounds) waiting(w *waiter, members []Contender) ([]waitingMember, error) {
	found, errs := make([]*waitingMember, len(members)), make([]error, len(members))
	var all sync.WaitGroup
	turns := make(chan struct{}, 64) // in flight at once: enough to fill the pipe
	for i, m := range members {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			data, stat, err := w.session.Get(w.ctx, r.queue.path+"/"+m.Name)
			switch {
			case err == nil && stat.EphemeralOwner != 0:
				found[i] = &waitingMember{m, data, stat.Version == 0}
			case err != nil && !errors.Is(err, zk.ErrNoNode):
				errs[i] = err
			}
		})
	}
	all.Wait()
	var waiting []waitingMember
	seen := map[string]bool{}
	for _, m := range found {
		if m == nil {
			continue
		}
		made := strings.TrimSuffix(m.Name, m.Key)
		if !seen[made] && m.waits {
			waiting = append(waiting, *m)
		}
		seen[made] = true
	}
	return waiting, errors.Join(errs...)
}

func parseRound(path string, data []byte, stat zk.Stat) (Round, error) {
	span, _, _ := bytes.Cut(data, []byte(" "))
	first, last, ok := strings.Cut(string(span), "-")
	if !ok || !isNumber(first) || !isNumber(last) {
		return Round{}, &session.OpError{Op: "enter", Path: path, Err: fmt.Errorf("the node holds %q, which says no round", data)}
	}
	return Round{first, last, stat.Mzxid}, nil
}

// AwaitLeft waits until no member of the round is left.
//
// Errors: the cause of ctx; ErrClosed; otherwise what the server said.
func (r *Rounds) AwaitLeft(ctx context.Context, round Round) error {
	for {
		s, err := r.queue.client.Session(ctx)
		if err == nil {
			err = r.awaitLeft(ctx, s, round)
		}
		if err == nil || s == nil || s.Err() == nil || ctx.Err() != nil || r.queue.client.State() == session.Closed {
			return err
		}
	}
}

func (r *Rounds) awaitLeft(ctx context.Context, s *session.Session, round Round) error {
	for {
		children, err := s.Children(ctx, r.queue.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		left, _ := arrange(children, r.queue.kinds)
		left = slices.DeleteFunc(left, func(c Contender) bool { return c.Key < round.First || c.Key > round.Last })
		if len(left) == 0 {
			return nil
		}
		_, stat, gone, err := s.GetW(ctx, r.queue.path+"/"+left[len(left)-1].Name)
		if err == nil && stat.Czxid > round.Zxid {
			return nil // the parent was deleted when the members of the round had left, and numbers began again
		}
		if err == nil {
			err = AwaitChange(ctx, s, gone)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

// AwaitChange waits until the watch fires, or its event may have been lost. Errors: the session's own, or the cause of ctx.
func AwaitChange(ctx context.Context, s *session.Session, w *session.Watch) error {
	recheck := time.NewTimer(recheckAfter(s))
	defer recheck.Stop()
	select {
	case <-w.Fired():
		return nil
	case <-recheck.C:
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
