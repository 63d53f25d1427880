package barrier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/layout"
)

// member is the name of the members, up to the sequence number.
const member = "member-"

// rounds admits members n at a time. A member is a contender under the path. A client that finds n members waiting
// admits the first n of them in one transaction, which writes the round into each of their nodes. The transaction fails
// unless all n exist and none was admitted before. At that instant n members were therefore present, each is admitted
// once, and no flag is left that could admit another one.
type rounds struct {
	queue *znode.Queue
	n     int
}

// span is what the node of an admitted member holds. The members of the round are all those whose keys are in the
// range: they were the first ones waiting, and every later member has a greater key.
type span struct {
	first, last string // keys
	rank        int    // of the member among them
	zxid        int64  // of the transaction
}

// newRounds returns the rounds of n members under path. Errors: those of [znode.New]; n below 1.
func newRounds(client *client.Client, path string, config recipe.Config, n int) (*rounds, error) {
	q, err := znode.New(client, path, config, member)
	if n < 1 {
		err = errors.Join(err, fmt.Errorf("%d members: want at least 1", n))
	}
	if err != nil {
		return nil, err
	}
	return &rounds{q, n}, nil
}

// enter waits until the caller is in a round. See [znode.Queue.Acquire] for sessions and errors.
func (r *rounds) enter(ctx context.Context) (h *zkrecipes.Hold, in span, err error) {
	e := znode.Entry{Kind: member, As: "barrier"}
	h, err = r.queue.AcquireBy(ctx, e, func(ctx context.Context, w *znode.Waiter) (err error) {
		in, err = r.await(ctx, w)
		return err
	})
	return h, in, err
}

// await waits until the member's own node shows that it is in a round. The member that completes a round admits it. Any
// other waiter does so when it checks again, in case that member stopped first.
func (r *rounds) await(ctx context.Context, w *znode.Waiter) (span, error) {
	var hangups session.Hangups
	var repeats session.Repeats
	for {
		// The watch is set before the list is read, so a round that the list does not show yet fires it.
		data, stat, changed, err := w.ReadOwn()
		if err != nil {
			return span{}, err
		}
		if stat.Version > 0 {
			in, _, ok := parseSpan(data)
			if !ok {
				return span{}, &session.OpError{
					Op: "enter", Path: w.Path(), Err: fmt.Errorf("the node holds %q, which is not a round", data),
				}
			}
			in.zxid = stat.Mzxid
			return in, nil
		}
		members, err := w.Queue()
		if err != nil {
			return span{}, err
		}
		again, err := r.letIn(ctx, w.Session(), members, &hangups, &repeats)
		if err == nil && !again {
			err = w.Pause(changed)
		}
		if err != nil {
			return span{}, err
		}
	}
}

// letIn admits the first n waiting members if there are that many. again reports that there were, in which case the
// caller checks its own node next: it was admitted, another client admitted members first, or a member has left.
func (r *rounds) letIn(
	ctx context.Context, s *session.Session, members []znode.Contender, hangups *session.Hangups,
	repeats *session.Repeats,
) (again bool, err error) {
	if len(members) < r.n {
		return false, nil
	}
	waiting, err := r.waiting(ctx, s, members)
	if err != nil || len(waiting) < r.n {
		return false, err
	}
	waiting = waiting[:r.n]
	var ops []zkrecipes.Op
	size := 0
	for rank, m := range waiting {
		in := span{first: waiting[0].Key, last: waiting[r.n-1].Key, rank: rank}
		data := slices.Concat([]byte(in.String()+" "), m.data)
		size += len(m.Name) + len(data)
		ops = append(ops, zkrecipes.OpSet(r.queue.Child(m.Name), data, 0))
	}
	_, err = s.Multi(ctx, ops...)
	err = hangups.Judge(size, err)
	switch {
	case err == nil, errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return true, nil
	case session.ReplyLost(err):
		// The member's own node decides. A second copy fails because of its versions.
		return true, repeats.Pause(ctx, err)
	default:
		return false, err
	}
}

// waitingMember is a member as it was read.
type waitingMember struct {
	znode.Contender
	data  []byte
	waits bool // it has not been admitted yet
}

// waiting reads which of the members are waiting. A create that was retried may have created two nodes, of which the
// first counts, even if that one was admitted before.
func (r *rounds) waiting(ctx context.Context, s *session.Session, members []znode.Contender) ([]waitingMember, error) {
	found, errs := make([]*waitingMember, len(members)), make([]error, len(members))
	session.InFlight(len(members), func(i int) {
		data, stat, err := s.Get(ctx, r.queue.Child(members[i].Name))
		switch {
		case err == nil && stat.EphemeralOwner != 0:
			found[i] = &waitingMember{members[i], data, stat.Version == 0}
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			errs[i] = err
		}
	})
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

// String returns the span as nodes store it.
func (in span) String() string { return fmt.Sprintf("%s-%s-%d", in.first, in.last, in.rank) }

// parseSpan parses the data of a member in a round, apart from the transaction, and returns the member's own data that
// follows it.
func parseSpan(data []byte) (in span, own []byte, ok bool) {
	text, own, ok := bytes.Cut(data, []byte(" "))
	parts := strings.Split(string(text), "-")
	if !ok || len(parts) != 3 || !layout.IsNumber(parts[0]) || !layout.IsNumber(parts[1]) {
		return span{}, nil, false
	}
	rank, err := strconv.Atoi(parts[2])
	return span{first: parts[0], last: parts[1], rank: rank}, own, err == nil
}

// members returns the members of the round that have not left, in the order of their ranks.
func (r *rounds) members(ctx context.Context, in span) ([]Member, error) {
	contenders, err := r.queue.List(ctx)
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, p := range contenders {
		its, own, ok := parseSpan(p.Data)
		// If the parent was deleted, numbers started over, and the nodes of a later round were created after the
		// transaction.
		if !ok || its.first != in.first || its.last != in.last || int64(p.Token) > in.zxid {
			continue
		}
		p.Data, p.Name = own, znode.NameIn(own)
		members = append(members, Member{p, its.rank})
	}
	return members, nil
}

// awaitLeft waits until no member of the round is left.
//
// Errors: the cause of ctx; ErrClosed; otherwise the server's error.
func (r *rounds) awaitLeft(ctx context.Context, in span) error {
	return r.queue.Client().InSession(ctx, "leave", r.queue.Path(),
		func(s *session.Session) error { return r.awaitLeftIn(ctx, s, in) })
}

func (r *rounds) awaitLeftIn(ctx context.Context, s *session.Session, in span) error {
	for {
		children, err := s.Children(ctx, r.queue.Path())
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(r.queue.Arrange(children),
			func(c znode.Contender) bool { return c.Key < in.first || c.Key > in.last })
		if len(left) == 0 {
			return nil
		}
		last := left[len(left)-1].Name
		_, stat, gone, err := s.GetW(ctx, r.queue.Child(last))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return err
		case stat.Czxid > in.zxid:
			return nil // the parent was deleted when the members of the round had left, and numbers started over
		}
		if _, err := s.AwaitChange(ctx, s.RecheckAfter(), gone.Fired()); err != nil {
			return &session.OpError{Op: "leave", Path: r.queue.Path(), Err: fmt.Errorf("%s is still inside: %w", last, err)}
		}
	}
}
