package znode

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// node is a contender of ours, made in a session and gone with it at the latest. Several that were made in one
// transaction stand and fall together: they share the czxid, and none is of use without the others.
type node struct {
	Contender // the first
	session   *session.Session
	path      string // of the first
	others    []Contender
	paths     []string // of all
	czxid     int64
	told      bool   // its place in the queue was known without reading
	guid      string // if its create was sent more than once
	removed   *removal
	once      sync.Once

	succession *succession
}

// create makes a contender in s, and with it parents that are missing. The listing that it returns was asked for once the
// create was on its way, so that the two cost one round trip together, or is known without reading; it may be nil.
//
// The GUID makes the create safe to repeat: when an answer is lost, the node is looked for before it is made again. A
// node that is found counts only if this session owns it. The caller may go at any time; what it leaves behind is then
// removed here.
//
// Errors: errRequeue if part of what was made is gone, or the node to leave was.
//
// Source: Curator's CreateBuilder with protection; its search trusts a follower that lags.
func (q *Queue) create(ctx context.Context, s *session.Session, e Entry) (*node, *listing, error) {
	guid := newGUID()
	lister := q.lister(s)
	count := max(e.Count, 1)
	known := e.known
	if known == nil && e.Key == "" {
		known = lister.succession.take()
	}
	repeated := ""
	for {
		c, l, err := q.start(ctx, s, guid, e, known == nil || !lister.succession.regular())
		if err != nil {
			return nil, nil, err
		}
		paths, zxid, err := s.FinishCreate(ctx, c)
		switch {
		case err == nil:
			n := q.newNode(s, paths, zxid)
			n.guid = repeated
			if known != nil {
				told := known.with(n)
				n.told, l = told != nil, cmp.Or(told, l)
				lister.succession.note(n.told)
			}
			return n, l, nil
		case errors.Is(err, session.ErrNotLeft):
			if repeated != "" { // it may be the first copy, late, that has left it; see sweep
				q.abandon(s, c, guid)
			}
			return nil, nil, errRequeue
		case errors.Is(err, zk.ErrNoNode):
			if err := makeParents(ctx, s, q.path); err != nil {
				return nil, nil, err
			}
		case wire.ServerFault(err):
			q.abandon(s, c, guid)
			return nil, nil, err
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome):
			n, findErr := q.find(ctx, s, guid)
			if findErr != nil {
				q.abandon(s, c, guid)
				return nil, nil, errors.Join(err, findErr)
			}
			if n != nil && len(n.paths) == count {
				n.guid = repeated
				return n, nil, nil
			}
			if n != nil { // somebody has deleted part of it already
				n.remove()
				return nil, nil, errRequeue
			}
			repeated = guid
		case session.NotExecuted(err):
			if err := rest(ctx, 10*time.Millisecond); err != nil { // the server sheds load, or the connection is just going
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
}

// start begins the create, and with it, if that is wanted, a listing: asked for in the same breath, or, when another
// is on its way already, once the create is.
func (q *Queue) start(ctx context.Context, s *session.Session, guid string, e Entry, list bool) (*session.Creation, *listing, error) {
	flags := int32(zk.FlagEphemeral | zk.FlagSequence)
	if e.Key != "" {
		flags = zk.FlagEphemeral
	}
	along := session.Along{Leave: e.leaves()}
	lister := q.lister(s)
	var l *listing
	if list {
		if l = lister.accompany(); l != nil {
			along.Listed = lister.listed
		}
	}
	c, err := s.StartCreate(ctx, q.name(guid, e), e.Data, flags, max(e.Count, 1), along)
	if err != nil {
		if l != nil {
			lister.listed(nil, zk.Stat{}, err)
		}
		return nil, nil, err
	}
	if list && l == nil {
		select {
		case <-c.Sent():
		case <-ctx.Done():
		case <-s.Done():
		}
		l = lister.ask()
	}
	return c, l, nil
}

// leaves returns what the transaction that makes the contenders deletes.
func (e *Entry) leaves() []string {
	if e.leave == nil {
		return nil
	}
	return e.leave.paths
}

// name returns the path to create, to which the server appends a number unless the entry brings one.
func (q *Queue) name(guid string, e Entry) string {
	return q.path + "/" + protected(guid, e.Kind) + e.Key
}

// check returns the error of an entry that no server would accept.
func (q *Queue) check(e Entry, leave ...string) error {
	return q.client.CheckCreate(q.name(anyGUID, e), e.Data, max(e.Count, 1), leave...)
}

func (q *Queue) newNode(s *session.Session, paths []string, zxid int64) *node {
	contenders := make([]Contender, len(paths))
	for i, path := range paths {
		contenders[i] = q.Parse(path)
	}
	return &node{
		Contender: contenders[0], path: paths[0], others: contenders[1:], paths: paths,
		session: s, succession: q.lister(s).succession, czxid: zxid, removed: &removal{done: make(chan struct{})},
	}
}

// find looks for what was made with the GUID. Nil and no error says that this session has nothing of it, and, since the
// barrier makes what is read newer than any create whose answer is lost, that none is on its way. A sync would not do: the
// leader that answers it may have been replaced by the one that has the create. One thing can still make it late: a server
// that hung while it had the create, and while we tried it again in vain, may take the session back when it goes on; see
// sweep.
func (q *Queue) find(ctx context.Context, s *session.Session, guid string) (*node, error) {
	if err := s.Barrier(ctx); err != nil {
		return nil, err
	}
	children, err := s.Children(ctx, q.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil //nolint:nilnil // not there, and no error
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	var zxid int64
	for _, name := range children {
		if !strings.HasPrefix(name, guidPrefix(guid)) {
			continue
		}
		path := q.path + "/" + name
		exists, stat, err := s.Exists(ctx, path)
		switch {
		case err != nil:
			return nil, err
		case exists && stat.EphemeralOwner == s.ID():
			paths, zxid = append(paths, path), stat.Czxid
		case exists:
			q.client.Logger().Warn("zookeeper: a node with our GUID belongs to another session and is left alone", "path", path)
		}
	}
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // as above
	}
	slices.Sort(paths) // they differ in their numbers alone, and the first must be the first
	return q.newNode(s, paths, zxid), nil
}

// abandon sees to a create whose caller is gone: it waits for the call, so that nothing of it can come later, and
// removes what it made. It ends when that is confirmed, or with the session.
func (q *Queue) abandon(s *session.Session, c *session.Creation, guid string) {
	s.Go(func(ctx context.Context) {
		select {
		case <-c.Done():
		case <-ctx.Done():
			return
		}
		q.sweep(ctx, s, guid)
	})
}

// sweep removes what there is with the GUID. A create that was sent again may have made two contenders after all, the first
// of them late (ZOOKEEPER-710 is about such servers). Behind the one that counts it does no harm, but it must not outlive it;
// ahead of it, see behindItself, none of them counts.
func (q *Queue) sweep(ctx context.Context, s *session.Session, guid string) {
	untilDone(ctx, func() error {
		n, err := q.find(ctx, s, guid)
		if err != nil || n == nil {
			return err
		}
		return n.delete(ctx)
	})
}

// removal is the deletion of a node, which goes on whoever waits for it.
type removal struct{ done chan struct{} }

// remove deletes the node, with all its paths: again and again, with back-off, until it is gone or the session over. It
// returns at once, and may be called any number of times.
func (n *node) remove() *removal {
	// A granted node is taken off the session's list of those to be told first, see finish: so when the connection goes
	// while this is sent, nobody who is told of it comes here and waits for us.
	n.once.Do(func() {
		left := n.succession.leaving(n)
		if len(n.paths) > 1 || n.guid != "" || !n.session.StartDelete(n.path, -1, func(err error) {
			if err == nil {
				left()
			}
			if deleted(err) == nil {
				close(n.removed.done)
			} else {
				n.keepRemoving()
			}
		}) {
			n.keepRemoving()
		}
	})
	return n.removed
}

func (n *node) keepRemoving() {
	if !n.session.Go(func(ctx context.Context) {
		defer close(n.removed.done)
		untilDone(ctx, func() error { return n.delete(ctx) })
		if n.guid != "" {
			n.succession.queue.sweep(ctx, n.session, n.guid)
		}
	}) {
		close(n.removed.done) // the client is closed, and its session with it
	}
}

// behindItself reports whether one that was made by the same create, sent again, is ahead of n.
func (n *node) behindItself(ahead []Contender) bool {
	return n.guid != "" && slices.ContainsFunc(ahead, func(c Contender) bool { return strings.HasPrefix(c.Name, guidPrefix(n.guid)) })
}

// checkKeys returns the error of numbers from which the order cannot be told.
func (n *node) checkKeys() error {
	for i, c := range append([]Contender{n.Contender}, n.others...) {
		if err := checkKey(c.Key); err != nil {
			return &session.OpError{Op: "queue", Path: n.paths[i], Err: err}
		}
	}
	return nil
}

// gone notes that the node has been deleted already.
func (n *node) gone() {
	n.once.Do(func() {
		if n.guid == "" {
			close(n.removed.done)
		} else {
			n.keepRemoving() // see sweep
		}
	})
}

func (r *removal) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// delete deletes all paths: several in one transaction, and if that fails, for it fails when one of them is gone, one by
// one.
func (n *node) delete(ctx context.Context) error {
	if len(n.paths) > 1 {
		ops := make([]any, len(n.paths))
		for i, path := range n.paths {
			ops[i] = &zk.DeleteRequest{Path: path, Version: -1}
		}
		if _, err := n.session.Multi(ctx, ops...); err == nil {
			return nil
		}
	}
	left := n.succession.leaving(n)
	for _, path := range n.paths {
		err := n.session.Delete(ctx, path, -1)
		if err == nil {
			left() // of several, too: the number that follows the first one's has been given already
		}
		if err := deleted(err); err != nil {
			return err
		}
	}
	return nil
}

// deleted turns the answer to a delete into whether there is more to do.
func deleted(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// rest waits for d, or for the end of ctx.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// untilDone repeats f until it returns nil or ctx, the session's, ends.
func untilDone(ctx context.Context, f func() error) {
	var pause backoff.BackOff // most succeed at once
	for f() != nil && ctx.Err() == nil {
		if pause == nil {
			pause = backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
				backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
		}
		_ = rest(ctx, pause.NextBackOff()) // the loop looks at ctx
	}
}
