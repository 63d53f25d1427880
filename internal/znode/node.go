package znode

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// node is a contender of ours. It ends with its session at the latest. Several contenders that were made in one transaction
// are one node: they share the czxid, and none is of use without the others.
type node struct {
	queue      *Queue
	session    *session.Session
	contenders []Contender
	paths      []string // of the contenders
	czxid      int64
	guid       string // set if its create was sent more than once
	shortcut   *shortcut

	once    sync.Once     // guards the removal
	gone    chan struct{} // closed when the removal is complete, or the session over
	refused chan struct{} // closed when the server does not allow the removal
	refusal error         // valid once refused is closed
}

func (q *Queue) newNode(s *session.Session, paths []string, zxid int64) *node {
	n := &node{
		queue: q, session: s, paths: paths, czxid: zxid, shortcut: q.in(s).shortcut,
		gone: make(chan struct{}), refused: make(chan struct{}),
	}
	for _, path := range paths {
		n.contenders = append(n.contenders, q.Parse(path))
	}
	return n
}

func (n *node) first() Contender { return n.contenders[0] }

// checkKeys returns the error of sequence numbers from which the order cannot be told.
func (n *node) checkKeys() error {
	for i, c := range n.contenders {
		if err := checkKey(c.Key); err != nil {
			return &session.OpError{Op: "queue", Path: n.paths[i], Err: err}
		}
	}
	return nil
}

// aheadOfItself reports whether the same create, sent again, made one of those ahead. The node would wait for itself.
func (n *node) aheadOfItself(ahead []Contender) bool {
	return n.guid != "" && slices.ContainsFunc(ahead, func(c Contender) bool { return strings.HasPrefix(c.Name, guidPrefix(n.guid)) })
}

// requireExists returns errRequeue if one of the paths does not exist.
func (n *node) requireExists(ctx context.Context) error {
	for _, path := range n.paths {
		exists, stat, err := n.session.Exists(ctx, path)
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != n.czxid {
			return errRequeue
		}
	}
	return nil
}

// remove begins to delete the node and returns at once. The deletion is repeated, with backoff, until it is complete or the
// session over. It may be called any number of times.
func (n *node) remove() {
	// If the connection ends while the delete is sent, loss callbacks run on this goroutine. The callback of this node would
	// come back into once and wait without an end. grant.finish has taken it off the session before.
	n.once.Do(func() {
		left := n.shortcut.leaving(n)
		if len(n.paths) > 1 || n.guid != "" || !n.session.StartDelete(n.paths[0], -1, func(err error) {
			if err == nil {
				left()
			}
			if deleted(err) == nil {
				close(n.gone)
			} else {
				n.keepRemoving()
			}
		}) {
			n.keepRemoving()
		}
	})
}

func (n *node) keepRemoving() {
	var once sync.Once
	if !n.session.Go(func(ctx context.Context) {
		defer close(n.gone)
		n.queue.untilDone(ctx, func() error {
			err := n.delete(ctx)
			if errors.Is(err, zk.ErrNoAuth) {
				once.Do(func() {
					n.refusal = err
					close(n.refused)
				})
			}
			return err
		})
		if n.guid != "" {
			n.queue.sweep(ctx, n.session, n.guid)
		}
	}) {
		close(n.gone) // the client is closed, and its session with it
	}
}

// wasRemoved notes that a transaction has deleted the node.
func (n *node) wasRemoved() {
	n.once.Do(func() {
		if n.guid == "" {
			close(n.gone)
		} else {
			n.keepRemoving() // see sweep
		}
	})
}

// waitRemoved returns when the removal is complete, or the session over.
//
// Errors: the cause of ctx; that the server does not allow the removal. In both cases the removal goes on.
func (n *node) waitRemoved(ctx context.Context) error {
	select {
	case <-n.gone:
		return nil
	default:
	}
	select {
	case <-n.gone:
		return nil
	case <-n.refused:
		return n.refusal
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// delete deletes all paths. Several are deleted in one transaction. If one of them is gone the transaction fails, and they
// are deleted one by one.
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
	for _, path := range n.paths {
		if err := deleted(n.session.Delete(ctx, path, -1)); err != nil {
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

// untilDone repeats f, with backoff, until it returns nil or ctx, the session's, ends. A refusal is logged once, because
// others wait for what is to be removed.
func (q *Queue) untilDone(ctx context.Context, f func() error) {
	var pause backoff.BackOff // most succeed at once
	logged := false
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, zk.ErrNoAuth) && !logged {
			logged = true
			q.client.Logger().Warn("zookeeper: not allowed to remove a contender: others wait for it until this session ends",
				"path", q.path, "error", err)
		}
		if pause == nil {
			pause = backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
				backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
		}
		_ = sleep(ctx, pause.NextBackOff()) // the loop looks at ctx
	}
}
