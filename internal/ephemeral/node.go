package ephemeral

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Node is one of our nodes. Unless its Parent is Lasting, it ends no later than its session. Nodes created in one
// transaction are a single Node, because they share the czxid and each is useless without the others.
type Node struct {
	Parent   *Parent
	Session  *session.Session
	Kind     string
	Paths    []string
	Czxid    int64
	Observer Observer // may be nil

	one      [1]string // memory for Paths
	lateGUID string    // set if an earlier copy of its create may still arrive

	once        sync.Once     // guards the removal
	removalOver chan struct{} // closed when the removal is complete or refused, or the session has ended

	mu      sync.Mutex
	refusal error // why the server does not permit the removal; nil otherwise
}

// Observer is notified of the deletion of a node.
type Observer interface {
	// Deleting is called before Remove deletes the node.
	Deleting()
	// Deleted is called when the delete that Remove itself handed to a connection has succeeded. It is not called for one
	// that was sent in the background.
	Deleted()
}

func (p *Parent) newNode(s *session.Session, paths []string, zxid int64) *Node {
	n := &Node{Parent: p, Session: s, Paths: paths, Czxid: zxid, removalOver: make(chan struct{})}
	if len(paths) == 1 { // so that the slice paths doesn't stay in memory
		n.one[0], n.Paths = paths[0], n.one[:]
	}
	return n
}

// IsCopy reports whether a copy of the node's own create created the node with that name.
func (n *Node) IsCopy(name string) bool {
	return n.lateGUID != "" && strings.HasPrefix(name, Prefix(n.lateGUID))
}

// RequireExists returns ErrGone if one of the paths does not exist.
func (n *Node) RequireExists(ctx context.Context) error {
	errs := make([]error, len(n.Paths))
	session.InFlight(len(n.Paths), func(i int) {
		exists, stat, err := n.Session.Exists(ctx, n.Paths[i])
		if errs[i] = err; err == nil && (!exists || stat.Czxid != n.Czxid) {
			errs[i] = ErrGone
		}
	})
	return cmp.Or(errs...)
}

// Remove begins to delete the node and returns immediately. The deletion is repeated, with backoff, until it is
// complete or the session has ended. Remove may be called any number of times.
//
// While a delete is unanswered, the session is retained. If the server answers the sync that follows but not the
// delete, the connection ends, and the delete is sent again.
//
// Remove reports whether this call has handed the deletion to a connection, in which case everything the session later
// sends on that connection comes after the deletion.
func (n *Node) Remove() (sent bool) {
	// If the connection ends while the delete is sent, loss callbacks run on this goroutine. The callback of this node's
	// hold would re-enter n.once and deadlock, so the hold has unregistered it from the session beforehand.
	n.once.Do(func() {
		if n.Observer != nil {
			n.Observer.Deleting()
		}
		n.Session.BeginRetention()
		switch {
		case n.lateGUID != "": // a delete alone does not suffice: see sweep
		case len(n.Paths) == 1:
			sent = n.Session.StartDelete(n.Paths[0], -1, n.answered)
		default:
			sent = n.Session.StartDeleteAll(n.Paths, n.answered)
		}
		if !sent {
			n.Session.EndRetention()
			n.keepRemoving()
		}
	})
	return sent
}

// answered records the outcome of the first delete.
func (n *Node) answered(err error) {
	n.Session.EndRetention()
	// If the node was already gone, somebody else deleted it, at an unknown time.
	if err == nil && n.Observer != nil {
		n.Observer.Deleted()
	}
	if err == nil || len(n.Paths) == 1 && isDone(err) == nil { // of several, the others still exist
		close(n.removalOver)
	} else {
		n.keepRemoving()
	}
}

func (n *Node) keepRemoving() {
	if !n.Session.Go(func(ctx context.Context) {
		defer n.finishRemoval()
		n.Parent.untilDone(ctx, func() error {
			err := n.delete(ctx)
			if errors.Is(err, zk.ErrNoAuth) {
				n.refuse(err)
			}
			return err
		})
		if n.lateGUID != "" {
			n.Parent.sweep(ctx, n.Session, n.lateGUID)
		}
	}) {
		// The client is closed, and its session with it.
		close(n.removalOver)
	}
}

// refuse records that the server does not permit the removal. Waiters for the removal stop waiting.
func (n *Node) refuse(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refusal == nil {
		close(n.removalOver)
	}
	n.refusal = why
}

// finishRemoval records that the removal is complete, or the session has ended, perhaps after a refusal.
func (n *Node) finishRemoval() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refusal == nil {
		close(n.removalOver)
	}
	n.refusal = nil
}

// DeletedInTxn records that a transaction has deleted the node.
func (n *Node) DeletedInTxn() {
	n.once.Do(func() {
		if n.lateGUID == "" {
			close(n.removalOver)
		} else {
			n.keepRemoving() // see sweep
		}
	})
}

// WaitRemoved returns when the removal is complete, or the session has ended.
//
// Errors: the cause of ctx; an error if the server does not permit the removal. In both cases the removal continues.
func (n *Node) WaitRemoved(ctx context.Context) error {
	if ctx == nil {
		return session.ErrNoContext
	}
	select {
	case <-n.removalOver:
	case <-ctx.Done():
		select {
		case <-n.removalOver: // this counts even if ctx is done
		default:
			return session.CauseOf(ctx)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refusal
}

// delete deletes all paths; if there are several, in one transaction. If the transaction fails, for example because one
// of them is already gone, the paths are deleted one by one.
func (n *Node) delete(ctx context.Context) error {
	defer n.Session.Retain()()
	if len(n.Paths) > 1 {
		ops := make([]zkrecipes.Op, len(n.Paths))
		for i, path := range n.Paths {
			ops[i] = zkrecipes.OpDelete(path, -1)
		}
		if _, err := n.Session.Multi(ctx, ops...); err == nil {
			return nil
		}
	}
	for _, path := range n.Paths {
		if err := isDone(n.Session.Delete(ctx, path, -1)); err != nil {
			return err
		}
	}
	return nil
}

// isDone returns nil if the answer to a delete means that there is nothing left to do; otherwise it returns the error.
// A missing node counts as deleted: an earlier copy of the delete may have been applied, and because the name contains
// a GUID, no other client takes its place.
func isDone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// untilDone repeats f, with backoff, until f returns nil or ctx, the session's context, ends. A refusal is logged once,
// because others wait for what is being removed.
func (p *Parent) untilDone(ctx context.Context, f func() error) {
	var pauses *pause.Growing // most calls succeed immediately
	logged := false
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, zk.ErrNoAuth) && !logged {
			logged = true
			p.Client.Logger().Warn("zookeeper: not authorized to delete our node: others wait for it until this session ends",
				"path", p.Path, "error", err)
		}
		if pauses == nil {
			pauses = pause.New(10*time.Millisecond, 5*time.Second, 1.5)
		}
		_ = session.Sleep(ctx, pauses.NextBackOff()) // the loop checks ctx
	}
}
