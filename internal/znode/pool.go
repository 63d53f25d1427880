package znode

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Pool is a number of leases, handed out in order: whoever wants some queues at the door, and keeps it shut behind it
// until it has them. So there is never more than one whose leases are there and not granted, and the number of leases
// alone says whether it is let in.
//
// Exclusion does not rest on the door: who counts too many ahead of its own waits, and of all that are granted the last
// has counted the others. Progress does, as Curator's clients count those behind as well: of two that wait inside, each
// would wait for the other to go. So whoever loses the door while it waits takes its leases back.
//
// Whoever knows that there are enough takes its leases and gives up the door in one transaction, which fails if the door
// is no longer its own. It has counted before; that nobody has made leases since, past the door, their numbers say, see
// [survey], or else it counts again; and if they are too many then, it takes them back, and is at the end of the line.
//
// Source: Curator's InterProcessSemaphoreV2, which makes the leases, counts them all and then gives up the door.
type Pool struct{ door, leases *Queue }

// NewPool returns the pool under path.
func NewPool(client *conn.Client, path string, lossOnSuspend bool) (*Pool, error) {
	q, err := New(client, path, lossOnSuspend)
	if err != nil {
		return nil, err
	}
	below := func(name, kind string) *Queue {
		return &Queue{client: q.client, path: q.path + "/" + name, kinds: []string{kind}, lossOnSuspend: lossOnSuspend}
	}
	return &Pool{door: below("locks", Lock), leases: below("leases", Lease)}, nil
}

// Client returns the client of the pool.
func (p *Pool) Client() *session.Client { return p.door.client }

// List returns the leases that are out, as new as this call, and the last of them may be those of one who waits inside.
func (p *Pool) List(ctx context.Context) ([]zkrecipes.Participant, error) { return p.leases.List(ctx) }

// Acquire waits for the leases of e, all or none. See [Queue.Acquire].
func (p *Pool) Acquire(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := p.check(e); err != nil {
		return nil, err
	}
	return p.leases.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		return p.acquire(ctx, s, Entry{Kind: Lock, Data: e.Data, Rule: First}, e, true)
	})
}

// Try is Acquire for a caller that does not wait until leases are given back. It does wait for those at the door, as
// long as it looks as if there will be enough for it.
func (p *Pool) Try(ctx context.Context, e Entry) (*zkrecipes.Hold, error) {
	if err := p.check(e); err != nil {
		return nil, err
	}
	enough := func(ctx context.Context, s *session.Session) (Rule, Changes, error) {
		rule, changed, err := e.look(ctx, s)
		if err != nil {
			return nil, changed, err
		}
		l, w, err := p.leases.peek(ctx, s)
		if err != nil {
			return nil, changed, err
		}
		if _, granted := rule(l.queue, len(l.queue)); !granted {
			return nil, changed, p.leases.busy(ctx, s, l)
		}
		return First, Changes{changed[0], w}, nil
	}
	return p.leases.inSession(ctx, func(s *session.Session) (*zkrecipes.Hold, error) {
		// The sync keeps a server that lags from saying no too long.
		if err := s.Sync(ctx, p.leases.path); err != nil {
			return nil, err
		}
		if _, _, err := enough(ctx, s); err != nil {
			return nil, err
		}
		return p.acquire(ctx, s, Entry{Kind: Lock, Data: e.Data, Look: enough}, e, false)
	})
}

// check is that of the leases, which may be made in one transaction with the deletion of a node at the door.
func (p *Pool) check(e Entry) error {
	return p.leases.check(e, p.door.name(anyGUID, Entry{Kind: Lock, Key: "0000000000"}))
}

func (p *Pool) acquire(ctx context.Context, s *session.Session, turn, e Entry, wait bool) (_ *zkrecipes.Hold, err error) {
	// Whoever passes the door in a moment need not know whether somebody has deleted its node; whoever waits inside does.
	turn.Lazy = true
	var early, out *survey // of the leases, on its way together with what says that the door is ours
	if p.door.lister(s).succession.undisturbed() {
		early = p.leases.lister(s).succession.count(nil)
	}
	turn.Next = func(after *listing) { out = p.leases.lister(s).succession.count(after) }
	door, err := p.door.acquire(ctx, s, turn, true)
	if err != nil {
		return nil, err
	}
	inside, end := Both(ctx, door.Context())
	defer func() { // also when a rule panics
		if err == nil {
			end(nil) // and so nobody waits for the door: who has its leases need not
		} else {
			inside = ctx
		}
		_ = door.Release(inside) // the removal goes on, whoever waits for it
		end(nil)
	}()
	g, held := p.door.above(door.Context(), Lock)
	switch {
	case !held:
		return nil, errRequeue
	case out == nil && g.told:
		out = early // nobody has been at the door since
	}
	h, err := p.enter(inside, s, g, out, e, wait)
	if err != nil && ctx.Err() == nil && door.Err() != nil {
		return nil, errRequeue
	}
	return h, err
}

// enter takes the leases: in the transaction that gives up the door, if there are enough, and otherwise it waits inside.
func (p *Pool) enter(ctx context.Context, s *session.Session, door *grant, out *survey, e Entry, wait bool) (*zkrecipes.Hold, error) {
	enough, err := p.enough(ctx, s, out, &e)
	if err != nil {
		return nil, err
	}
	if !enough {
		e.Waiting = door.watch
		return p.leases.acquire(ctx, s, e, wait)
	}
	e.known, e.leave = out, door.node
	left := door.succession.leaving(door.node)
	h, err := p.leases.acquire(ctx, s, e, false)
	switch {
	case err == nil:
		left()
		door.gone()
	case errors.Is(err, zkrecipes.ErrLocked):
		err = errRequeue // somebody has come in past the door
	}
	return h, err
}

// enough reports whether it is known that the leases of e can be had at once.
func (p *Pool) enough(ctx context.Context, s *session.Session, out *survey, e *Entry) (bool, error) {
	if out == nil {
		return false, nil
	}
	rule, err := e.lookOnce(ctx, s)
	if err != nil {
		return false, err
	}
	err = out.wait(ctx, s)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil || out.home == nil || out.home.HasFired() {
		return false, err
	}
	_, granted := rule(out.contenders, len(out.contenders))
	return granted, nil
}

// lookOnce asks for the rule, and makes e answer with it as long as it is the same.
func (e *Entry) lookOnce(ctx context.Context, s *session.Session) (Rule, error) {
	look := e.Look
	if look == nil {
		return e.Rule, nil
	}
	rule, changed, err := look(ctx, s)
	e.Look = func(ctx context.Context, s *session.Session) (Rule, Changes, error) {
		if !changed.haveFired() {
			return rule, changed, nil
		}
		return look(ctx, s)
	}
	return rule, err
}
