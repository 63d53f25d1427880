package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/znode"
)

// ErrNotStanding reports that a candidate isn't in the queue, or no longer is.
var ErrNotStanding = errors.New("the candidate is not standing")

// Appoint makes a candidate of your choice the next leader, for instance one that runs the new release. It asks the
// candidates ahead of that one to stand back, and returns nil once the appointed candidate is next. The term continues,
// so you can finish your work before you release the term or return from the function passed to [Election.Run]; then
// the appointed candidate leads. Take the candidate from the list that [Election.Queue] returns:
//
//	candidates, err := e.Queue(ctx)
//	...
//	err = e.Appoint(ctx, t, candidates[3])
//
// A candidate that stands back leaves the queue and rejoins it at the back, once per appointment. Only candidates with
// [WithStandBack] do so; the appointed candidate itself doesn't need the option. All others, including those of Curator
// and kazoo, stay where they are. If one of them is ahead of the appointed candidate, Appoint waits until it leaves, so
// give ctx a deadline of a few seconds.
//
// Appoint only changes places in the queue, whose first candidate always leads. If the appointed candidate leaves or
// dies before it leads, for example, the candidate behind it leads, and those that stood back have lost one round. If
// the appointed candidate is cut off when the term ends, nobody leads until the servers expire its session.
//
// If Appoint fails, the term continues, but some candidates may already have stood back. If it fails because ctx is
// done, its request is withdrawn in the background.
//
// Errors: before sending any request, a term that has ended or belongs to another election or client, or a candidate on
// another path; [ErrNotStanding] if the candidate isn't in the queue or leaves it; ErrFenced, ErrReleased or a
// [*zkrecipes.LostError] if the term ends before Appoint returns; context.Cause(ctx), with the candidate that is still
// ahead; ErrClosed; or the server's error. The request to stand back is an ephemeral node at Path with the suffix
// -next, so the client needs permission to create and delete next to the election's path, and the candidates to read
// there; if a node that isn't ephemeral exists there, the error is zk.ErrNodeExists.
func (e *Election) Appoint(ctx context.Context, t *Term, to zkrecipes.Participant) error {
	if ctx == nil {
		return e.failed(session.ErrNoContext)
	}
	if t == nil || t.Hold == nil {
		return e.failed(errors.New("the term is nil: want one of Campaign or Run"))
	}
	if err := t.Err(); err != nil {
		return e.failed(err)
	}
	a := appointment{by: e.name(t.Path()), to: e.name(to.Path), czxid: int64(to.Token)}
	if a.by == "" || a.to == "" || a.to == a.by {
		return e.failed(fmt.Errorf("term %s and candidate %s: want two contenders of this election", t.Path(), to.Path))
	}
	client := e.queue.Client()
	if err := hold.RequireClient(t.Hold, client); err != nil {
		return e.failed(err)
	}
	inside, end := hold.Both(t.Context(), ctx)
	defer end(nil)
	if err := client.Sync(inside, e.Path()); err != nil {
		return err
	}
	asker := int64(0) // the session that has asked
	defer func() {
		if asker != 0 {
			e.withdraw(ctx, a, asker)
		}
	}()
	return client.InSession(inside, "appoint", e.Path(), func(s *session.Session) error {
		for {
			ahead, err := e.between(inside, s, a)
			if err != nil || ahead == "" {
				return err
			}
			again := asker != 0
			asker = s.ID() // even if it fails: the outcome may be unknown
			if err := e.ask(inside, s, t, a, again); err != nil {
				return err
			}
			if err := e.awaitLeaving(inside, s, ahead, a); err != nil {
				return err
			}
		}
	})
}

// appointment is the leader's request that the candidates ahead of another one stand back. by and to are names of nodes
// in the queue. Sequence numbers restart in a recreated queue, so the czxid identifies the node.
type appointment struct {
	by, to string
	czxid  int64 // of to
	zxid   int64 // of the transaction that created the appointment's node; 0 while it is being written
}

func (a appointment) text() string { return a.to + " 0x" + strconv.FormatInt(a.czxid, 16) }

// parseAppointment returns false if text is not an appointment.
func parseAppointment(text string) (a appointment, ok bool) {
	to, czxid, _ := strings.Cut(text, " 0x")
	n, err := strconv.ParseInt(czxid, 16, 64)
	return appointment{to: to, czxid: n}, err == nil
}

func (e *Election) failed(err error) error {
	return &session.OpError{Op: "appoint", Path: e.Path(), Err: err}
}

// name returns the name of a contender in the queue, or "" if path is not one.
func (e *Election) name(path string) string {
	name, ok := strings.CutPrefix(path, e.Path()+"/")
	if !ok || e.queue.Parse(path).Key == "" {
		return ""
	}
	return name
}

// next returns the path of the leader's request. The node is a sibling of the queue rather than a child, because other
// libraries list all children. It is ephemeral, so a leader that dies leaves nothing behind.
func (e *Election) next() string { return e.Path() + "-next" }

// between returns the name of the candidate just ahead of the appointed one, or "" if only the leader is ahead.
//
// No candidate can appear in between later, because new candidates get larger numbers.
func (e *Election) between(ctx context.Context, s *session.Session, a appointment) (string, error) {
	children, _, err := s.ChildrenStat(ctx, e.Path())
	if err != nil {
		return "", err
	}
	queue := e.queue.Arrange(children)
	at := slices.IndexFunc(queue, func(c znode.Contender) bool { return c.Name == a.to })
	switch {
	case at < 0:
		return "", fmt.Errorf("%s: %w", e.queue.Child(a.to), ErrNotStanding)
	case queue[max(at-1, 0)].Name == a.by:
		return "", nil
	case !slices.ContainsFunc(queue[:at], func(c znode.Contender) bool { return c.Name == a.by }):
		return "", e.failed(fmt.Errorf("%w: the leader is not ahead of %s", zkrecipes.ErrFenced, a.to))
	default:
		return queue[at-1].Name, nil
	}
}

// ask writes the appointment if the term is still held, and replaces an earlier one. An appointment of a previous
// leader exists until that leader's session ends. If ask is called again, it leaves another appointment alone: the
// leader has changed its mind. It does write the appointment again if the node was deleted, by hand or together with
// another appointment of this leader; see withdraw.
func (e *Election) ask(ctx context.Context, s *session.Session, t *Term, a appointment, again bool) error {
	var repeats session.Repeats
	for {
		data, stat, err := s.Get(ctx, e.next())
		ops := []zkrecipes.Op{zkrecipes.OpCreate(e.next(), []byte(a.text()), zk.FlagEphemeral)}
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return err
		case stat.EphemeralOwner == 0:
			return fmt.Errorf("%s: %w: it is not an appointment by a leader", e.next(), zk.ErrNodeExists)
		case again, string(data) == a.text() && stat.EphemeralOwner == s.ID():
			return nil
		default:
			ops = append([]zkrecipes.Op{zkrecipes.OpDelete(e.next(), stat.Version)}, ops...)
		}
		_, err = t.Txn(ctx, ops...)
		switch {
		case err == nil:
			return nil
		case session.ReplyLost(err): // repeating the request has no further effect
			if err := repeats.Pause(ctx, err); err != nil {
				return err
			}
		case !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return err
		}
	}
}

// withdrawTimeout is how long Appoint waits, at most until its context is done, for the removal of the appointment,
// which continues in the background. An appointment that stays is harmless, because no one is ahead of the candidate.
const withdrawTimeout = time.Second

// withdraw removes the appointment on a goroutine of the client.
func (e *Election) withdraw(ctx context.Context, a appointment, asker int64) {
	waiting, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	removed := make(chan struct{})
	if !e.queue.Client().Go(func(ctx context.Context) {
		defer close(removed)
		e.remove(ctx, a, asker)
	}) {
		return // the client is closed, and the appointment ends with its session
	}
	select {
	case <-removed:
	case <-waiting.Done():
	}
}

// remove removes the appointment, unless it has been replaced by another one. The next leader may have appointed the
// same candidate, so the session counts as well. If the node is replaced between the two requests, the other
// appointment is removed, and its leader writes it again.
func (e *Election) remove(ctx context.Context, a appointment, asker int64) {
	data, stat, err := e.queue.Client().Get(ctx, e.next())
	if err == nil && string(data) == a.text() && stat.EphemeralOwner == asker {
		_ = e.queue.Client().DeleteRead(ctx, e.next(), stat) // it is ephemeral, so it ends with the session if not earlier
	}
}

// awaitLeaving waits until one of two candidates has left, or the appointment is gone, or until their events may have
// been lost.
//
// Errors: ErrNotStanding if the appointed candidate's name is now that of another node.
func (e *Election) awaitLeaving(ctx context.Context, s *session.Session, ahead string, a appointment) error {
	var watches [3]*session.Watch
	defer func() {
		for _, w := range watches {
			s.Unwatch(w)
		}
	}()
	who := ""
	for i, path := range []string{e.queue.Child(ahead), e.queue.Child(a.to), e.next()} {
		data, stat, w, err := s.GetW(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		watches[i] = w
		switch {
		case i == 0:
			who = znode.NameIn(data)
		case i == 1 && stat.Czxid != a.czxid:
			return fmt.Errorf("%s: %w: its token is %d, not %d", path, ErrNotStanding, stat.Czxid, a.czxid)
		}
	}
	_, err := s.AwaitChange(ctx, s.RecheckAfter(), watches[0].Fired(), watches[1].Fired(), watches[2].Fired())
	if err != nil && ctx.Err() != nil {
		err = e.failed(fmt.Errorf("%s (%s) is still ahead of %s, and may not support standing back: %w",
			ahead, who, a.to, err))
	}
	return err
}
