package election

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// WithStandBack allows the leader to ask this candidate to stand back for another; see [Election.Appoint]. By default,
// a candidate keeps its place. One that stands back leaves the queue and rejoins it behind the appointed candidate, in
// the same campaign. Each campaign takes two more requests, and uses one more watch that all campaigns in a session
// share.
func WithStandBack() Option {
	return func(c *config) error {
		c.standBack = true
		return nil
	}
}

// stand acquires leadership, and stands back on request. Standing back means leaving the queue and joining it again:
// only the queue grants, by the same rule and with the same proofs as without appointments. What is read here, even
// late or never, therefore decides who queues where, but never who leads. At most one node is the first, and its owner
// leads, whichever of these happens:
//
//   - The candidate is granted while the request reaches it, because the leader has released or died. Acquire then
//     returns the hold or, if rejoin was called first, gives it up and removes the node. Either way there is one
//     hold or none. If the candidate leads, the appointed one has lost a round.
//   - The appointed candidate leaves, before or after others have stood back. They are behind its former place, and the
//     next one leads.
//   - The appointed candidate is slow, or cut off. Its node is the first once the leader has left, so it leads when it
//     returns, and the next one leads when its session has ended.
//   - The leader dies after its request, and the appointment ends with it. Candidates that have seen it stand back.
//     Others may not, and lead if they are first.
//   - The event or the connection is lost. The candidate rereads, as every view does, and may see the request late. It
//     stands back only if the appointed node exists and is behind its own, and only once per appointment.
//   - The session ends. Acquire continues in the next one with a new node, which is at the end of the queue and
//     therefore doesn't have to stand back.
//   - The leader appoints another candidate in the meantime. Candidates ahead of that one stand back, including the one
//     appointed first, whose Appoint fails.
//   - The deletion of the candidate's own node is late, for example without a connection. The node blocks others until
//     it is gone, as any abandoned node does. No acquisition waits on it, so it is granted to no one.
func (e *Election) stand(ctx context.Context) (*zkrecipes.Hold, error) {
	entry := e.entry()
	if ctx == nil || !e.standsBack {
		return e.queue.Acquire(ctx, entry)
	}
	c := &candidate{election: e}
	standing, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	if !e.queue.Client().Go(func(context.Context) {
		defer close(over)
		c.follow(standing)
	}) {
		close(over) // the client is closed
	}
	defer func() {
		stop()
		<-over
	}()
	entry.Joined = func(path string, rejoin func() bool) {
		c.learn(func() { c.own, c.rejoin = e.name(path), rejoin })
	}
	return e.queue.Acquire(ctx, entry)
}

func (e *Election) entry() znode.Entry {
	return znode.Entry{Kind: e.kind, Rule: znode.First, As: "election"}
}

// candidate is one campaign that may have to stand back.
type candidate struct {
	election *Election

	mu        sync.Mutex
	own       string // the name of its node; empty until there is one, and after it has stood back
	rejoin    func() bool
	appointed appointment
	heeded    int64 // the zxid of the appointment for which it last stood back
}

// follow reads appointments until ctx ends. If a server refuses or fails, it tries again, since a campaign may last for
// weeks.
func (c *candidate) follow(ctx context.Context) {
	e := c.election
	same := func(a, b appointment) bool { return a == b }
	pauses := pause.New(time.Second, time.Minute, 2)
	for failed := false; ctx.Err() == nil; {
		for view, err := range client.Follow(ctx, e.queue.Client(), e.next(), e.readNext, same) {
			switch {
			case err == nil:
				failed = false
				pauses.Reset()
				c.learn(func() { c.appointed = view.Value })
			case errors.Is(err, zkrecipes.ErrClosed):
				return
			case !failed:
				failed = true
				e.queue.Client().Logger().Warn("zookeeper: election: cannot read whether the leader asks to stand back",
					"path", e.next(), "error", err)
			}
		}
		_ = session.Sleep(ctx, pauses.NextBackOff()) // the loop checks ctx
	}
}

// readNext reads the appointment. It is zero if there is none, or if its candidate has left.
func (e *Election) readNext(ctx context.Context, s *session.Session) (appointment, *session.Watch, error) {
	n, changed, err := s.NodeW(ctx, e.next())
	if err != nil || !n.Exists {
		return appointment{}, changed, err
	}
	a, ok := parseAppointment(string(n.Data))
	if !ok || e.queue.Parse(a.to).Key == "" {
		return appointment{}, changed, nil
	}
	exists, stat, err := s.Exists(ctx, e.queue.Child(a.to))
	if err != nil {
		s.Unwatch(changed)
		return appointment{}, nil, err
	}
	if !exists || stat.Czxid != a.czxid {
		return appointment{}, changed, nil
	}
	a.zxid = n.Stat.Czxid
	return a, changed, nil
}

// learn records the candidate's own node or an appointment, whichever is known first, and leaves the queue if its own
// node is ahead of the appointed one. Keys of one parent are compared as text, as in the queue.
func (c *candidate) learn(news func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news()
	if c.own == "" || c.appointed.zxid == 0 || c.appointed.zxid == c.heeded {
		return
	}
	parse := c.election.queue.Parse
	if parse(c.own).Key < parse(c.appointed.to).Key {
		c.own = ""
		if c.rejoin() { // otherwise the node is gone already, and the next one, not known yet, may be ahead as well
			c.heeded = c.appointed.zxid
		}
	}
}
