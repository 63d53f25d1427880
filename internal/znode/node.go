package znode

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
)

// node is a contender of ours, made in a session and gone with it at the latest.
type node struct {
	Contender
	session *conn.Session
	path    string
	token   zkrecipes.Token
	removed *removal
	once    sync.Once
}

// create makes a contender in s, and with it parents that are missing. The listing it returns was asked for once the
// create was on its way, so that the two cost one round trip together; it may be nil.
//
// The GUID makes the create safe to repeat: when an answer is lost, the node is looked for before it is made again. A
// node that is found counts only if this session owns it. The caller may go at any time; what it leaves behind is then
// removed here.
//
// Source: Curator's CreateBuilder with protection; its search lacks the sync, and trusts a follower that lags.
func (q *Queue) create(ctx context.Context, s *conn.Session, e Entry) (*node, *listing, error) {
	guid := newGUID()
	want := q.path + "/" + protected(guid, e.Kind) + e.Key
	flags := int32(zk.FlagEphemeral | zk.FlagSequence)
	if e.Key != "" {
		flags = zk.FlagEphemeral
	}
	lister := q.lister(s)
	for {
		c, err := s.StartCreate(ctx, want, e.Data, flags)
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-c.Sent():
		case <-ctx.Done():
		case <-s.Done():
		}
		l := lister.ask()
		path, zxid, err := s.FinishCreate(ctx, c)
		switch {
		case err == nil && zxid != 0:
			return q.newNode(s, path, zxid), l, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := makeParents(ctx, s, q.path); err != nil {
				return nil, nil, err
			}
		case err == nil, errors.Is(err, zk.ErrNodeExists), errors.Is(err, zkrecipes.ErrUnknownOutcome):
			n, findErr := q.find(ctx, s, guid)
			if findErr != nil {
				q.abandon(s, c, guid)
				return nil, nil, errors.Join(err, findErr)
			}
			if n != nil {
				return n, nil, nil
			}
		case conn.NotExecuted(err):
		default:
			return nil, nil, err
		}
	}
}

func (q *Queue) newNode(s *conn.Session, path string, zxid int64) *node {
	name := path[strings.LastIndexByte(path, '/')+1:]
	c, _ := parse(name, q.kinds)
	return &node{Contender: c, session: s, path: path, token: zkrecipes.Token(zxid), removed: &removal{done: make(chan struct{})}}
}

// find looks for the node with the GUID. Nil and no error says that this session has none, and, since the sync makes
// what is read newer than any create whose answer is lost, that none is on its way.
func (q *Queue) find(ctx context.Context, s *conn.Session, guid string) (*node, error) {
	if err := s.Sync(ctx, q.path); err != nil {
		return nil, err
	}
	children, err := s.Children(ctx, q.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil //nolint:nilnil // not there, and no error
	}
	if err != nil {
		return nil, err
	}
	for _, name := range children {
		if !strings.HasPrefix(name, guidPrefix(guid)) {
			continue
		}
		path := q.path + "/" + name
		exists, stat, err := s.Exists(ctx, path)
		if err != nil {
			return nil, err
		}
		if exists && stat.EphemeralOwner == s.ID() {
			return q.newNode(s, path, stat.Czxid), nil
		}
		if exists {
			q.client.Logger().Warn("zookeeper: a node with our GUID belongs to another session and is left alone", "path", path)
		}
	}
	return nil, nil //nolint:nilnil // as above
}

// abandon sees to a create whose caller is gone: it waits for the call, so that nothing of it can come later, and
// removes what it made. It ends when that is confirmed, or with the session.
func (q *Queue) abandon(s *conn.Session, c *conn.Creation, guid string) {
	s.Go(func(ctx context.Context) {
		select {
		case <-c.Done():
		case <-ctx.Done():
			return
		}
		untilDone(ctx, func() error {
			n, err := q.find(ctx, s, guid)
			if err != nil || n == nil {
				return err
			}
			return deleted(s.Delete(ctx, n.path, -1))
		})
	})
}

// removal is the deletion of a node, which goes on whoever waits for it.
type removal struct{ done chan struct{} }

// remove deletes the node: again and again, with back-off, until it is gone or the session over. It returns at once,
// and may be called any number of times.
func (n *node) remove() *removal {
	n.once.Do(func() {
		if !n.session.Go(func(ctx context.Context) {
			defer close(n.removed.done)
			untilDone(ctx, func() error { return deleted(n.session.Delete(ctx, n.path, -1)) })
		}) {
			close(n.removed.done) // the client is closed, and its session with it
		}
	})
	return n.removed
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

// deleted turns the answer to a delete into whether there is more to do.
func deleted(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// untilDone repeats f until it returns nil or ctx, the session's, ends.
func untilDone(ctx context.Context, f func() error) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for f() != nil && ctx.Err() == nil {
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
