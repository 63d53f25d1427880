package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/pause"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// A Node maintains one ephemeral node. It is safe for concurrent use.
type Node struct {
	// The goroutine of the Node does all writes to ZooKeeper; callers state what they want and wait.
	client  *client.Client
	path    string
	refuse  bool
	replace func([]byte, zk.Stat) bool
	claim   *client.Claim
	stop    context.CancelFunc
	done    chan struct{} // closed when the removal is complete, or the session is over

	mu      sync.Mutex
	data    []byte
	wanted  int           // counts the data that callers have set
	written int           // the newest of them that the server has had
	state   State         // its freshness is that of age
	judged  int           // the newest data that state.Err can be about
	age     *session.Age  // nil if no server confirms the state
	final   error         // why callers stop waiting: the node will not exist again, or is being removed
	stuck   error         // why the server does not permit the removal
	changed chan struct{} // closed, and replaced, when one of the above changes

	set chan struct{} // signals new data; has room for one

	// The fields below are used only by the goroutine, see run.
	trying int // the newest data when the current attempt began
	pauses *pause.Growing
	since  time.Time // since when the current node has existed as it should; zero if it does not
	stood  bool      // the node existed once
}

// Option configures [New].
type Option func(*config) error

type config struct {
	refuse  bool
	replace func(data []byte, stat zk.Stat) bool
}

// WithRefusal makes the Node give up if another session's node occupies the path before the Node has ever created its
// own; by default, the Node waits until that node is gone. After giving up, the Node no longer creates anything at the
// path, and Ready and Set return a *zkrecipes.TakenError. A node from an earlier session of the same client doesn't
// count as another session's.
func WithRefusal() Option {
	return func(c *config) error {
		c.refuse = true
		return nil
	}
}

// WithReplace lets the Node replace another session's node, in one transaction, if the replace function returns true;
// by default, the Node waits until that node is gone. This is useful for a restarted process, which then doesn't have
// to wait for its predecessor's session to expire: the function should compare data that identifies the process's own
// node. It is called on one of the client's goroutines and must not block.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) Option {
	return func(c *config) error {
		if replace == nil {
			return errors.New("WithReplace: the function is nil")
		}
		c.replace = replace
		return nil
	}
}

// New starts maintaining an ephemeral node with the given data at path. It returns without waiting for the node; call
// [Node.Ready] for that. Missing parents are created. The root of a client created with [conn.Client.Sub], or of one
// with a chroot, is a path like any other.
//
// If a closed Node of the same client is still deleting its node at path, the new Node waits for that deletion first.
//
// Errors: a nil client; a path that is relative, malformed or the servers' root; an invalid option; data above
// [conn.WithMaxRequestSize]; a path at which another open Node of the same client maintains a node; or ErrClosed.
//
// Source: Curator's PersistentNode, which also adopts other sessions' nodes.
func New(c *conn.Client, path string, data []byte, opts ...Option) (*Node, error) {
	client := (*client.Client)(c)
	var cfg config
	if err := recipe.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n, err := open(client, path, data, cfg)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return n, nil
}

// open starts to maintain the node. The options have been checked.
func open(client *client.Client, path string, data []byte, cfg config) (*Node, error) {
	if client == nil {
		return nil, errors.New("client is nil: create one with conn.Dial")
	}
	if client.Abs(path) == "/" {
		return nil, errors.New("path \"/\" is the root, which is always there: want a path such as /app/workers/w1")
	}
	n := &Node{
		client: client, path: path, refuse: cfg.refuse, replace: cfg.replace,
		data: bytes.Clone(data), wanted: 1, state: State{Err: errNotYet},
		done: make(chan struct{}), changed: make(chan struct{}), set: make(chan struct{}, 1),
		pauses: pause.New(firstPause, lastPause, 2),
	}
	if err := n.check(data); err != nil {
		return nil, err
	}
	claim, ok := client.Claim(path)
	if !ok {
		return nil, fmt.Errorf("%s: this client already keeps a node there: close it first", path)
	}
	n.claim = claim
	if claim.Before() != nil {
		n.state.Err = errLeaving
	}
	started := make(chan context.CancelFunc)
	if !client.Go(func(client context.Context) {
		ctx, stop := context.WithCancel(client)
		defer stop()
		started <- stop
		n.awaitClaim(client)
		n.run(ctx, client)
		claim.Release()
		n.end()
	}) {
		claim.Release()
		return nil, fmt.Errorf("%s: %w", path, zkrecipes.ErrClosed)
	}
	n.stop = <-started
	return n, nil
}

// check returns an error if no server would accept data. A delete may be part of the same transaction.
func (n *Node) check(data []byte) error { return n.client.CheckCreate(n.path, data, 1, n.path) }

// Path returns the node's path.
func (n *Node) Path() string { return n.path }

// State returns what is currently known about the node. It doesn't send any requests.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view()
}

// view returns the current state. It is called with mu held.
func (n *Node) view() State {
	s := n.state
	if n.age != nil {
		s.Freshness = n.age.Freshness()
		s.Current = s.Current && !n.age.HasChanged() // a slow server may take a while to say what it is now
	}
	return s
}

// Watch yields the current state, then every change. If the caller is slow, it gets the latest state, and intermediate
// states are skipped.
//
// The iteration ends as described in package [zkrecipes], under "Conventions". Its error is ErrClosed or, with
// [WithRefusal], a *zkrecipes.TakenError.
func (n *Node) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if ctx == nil {
			yield(State{}, fmt.Errorf("%s: %w", n.path, session.ErrNoContext))
			return
		}
		var told *State
		for ctx.Err() == nil {
			n.mu.Lock()
			now, final, changed, look := n.view(), n.final, n.changed, n.lookAgain()
			var down <-chan struct{}
			if now.Current {
				down = n.age.Disconnected()
			}
			n.mu.Unlock()
			if final != nil {
				now.Current = false // nothing follows the node any more
				yield(now, final)
				return
			}
			if told == nil || !told.same(now) {
				told = &now
				if !yield(now, nil) {
					return
				}
				continue // it may have changed in the meantime
			}
			select {
			case <-changed:
			case <-down:
			case <-look:
			case <-ctx.Done():
			}
		}
	}
}

// lookAgain returns a channel that fires when the state has to be checked again although it has not changed, or nil if
// that is never necessary. It is called with mu held.
func (n *Node) lookAgain() <-chan time.Time {
	if n.age == nil {
		return nil
	}
	return time.After(n.age.LookAgain())
}

// Ready blocks until the node exists.
//
// Errors: context.Cause(ctx), with what the call was waiting for; the server's error if it refuses the node, which is
// retried in the background; a *zkrecipes.TakenError with [WithRefusal]; or ErrClosed.
func (n *Node) Ready(ctx context.Context) error {
	return n.await(ctx, 0, func() bool { return n.final == nil && n.state.Exists && n.view().Current })
}

// Set replaces the data, and blocks until the server has stored it, or newer data from a later Set. Even if Set fails,
// the data is still written as soon as possible, unless it was too large or the Node has ended.
//
// Errors: the same as for [Node.Ready], or data that is too large. If the server refused earlier data, Set waits for
// the server's answer to the new data, which is sent after the pause between two attempts.
func (n *Node) Set(ctx context.Context, data []byte) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", n.path, session.ErrNoContext)
	}
	if err := n.check(data); err != nil {
		return err
	}
	n.mu.Lock()
	n.data = bytes.Clone(data)
	n.wanted++
	wanted := n.wanted
	n.mu.Unlock()
	select {
	case n.set <- struct{}{}:
	default:
	}
	return n.await(ctx, wanted, func() bool { return n.written >= wanted })
}

// Close deletes the node if it is the client's own, and blocks until the node is gone or its session is over. Close is
// idempotent. Afterwards, Ready, Set and Watch return ErrClosed, unless the Node had ended with another error.
//
// Errors: context.Cause(ctx), or the server's error if it doesn't permit the deletion. In either case, the deletion is
// retried in the background.
func (n *Node) Close(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", n.path, session.ErrNoContext)
	}
	n.claim.Leave()
	n.finish(fmt.Errorf("%s: %w", n.path, recipe.Closed("node")))
	n.stop()
	for {
		n.mu.Lock()
		stuck, changed := n.stuck, n.changed
		n.mu.Unlock()
		select {
		case <-n.done:
			return nil
		default:
		}
		if stuck != nil {
			return stuck
		}
		select {
		case <-n.done:
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: still being deleted: %w", n.path, n.client.Explain(context.Cause(ctx)))
		}
	}
}

// finish records why callers wait no longer, unless there is a reason already. The removal of the node may continue.
func (n *Node) finish(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.final == nil {
		n.final = why
		n.broadcast()
	}
}

// await blocks until isDone returns true; isDone is called with mu held. An answer from the server about data with a
// lower number does not count.
//
// Errors: why the server refuses the node; why the Node has ended; the cause of ctx, with what the call was waiting
// for.
func (n *Node) await(ctx context.Context, number int, isDone func() bool) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", n.path, session.ErrNoContext)
	}
	for {
		n.mu.Lock()
		done, final, why, changed, look := isDone(), n.final, n.inTheWay(), n.changed, n.lookAgain()
		isAnswer := n.judged >= number
		n.mu.Unlock()
		switch {
		case done:
			return nil
		case final != nil:
			return final
		case isAnswer && isRefusal(why):
			return why
		}
		select {
		case <-changed:
		case <-look:
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			return fmt.Errorf("%s: %w: %w", n.path, n.inTheWay(), n.client.Explain(context.Cause(ctx)))
		}
	}
}

// inTheWay returns why the node is not known to exist with its data. It is called with mu held.
func (n *Node) inTheWay() error {
	switch s := n.view(); {
	case s.Err != nil:
		return s.Err
	case !s.Current:
		return errNoAnswer
	default:
		return errNotYet
	}
}

// broadcast wakes the callers that wait. It is called with mu held.
func (n *Node) broadcast() {
	close(n.changed)
	n.changed = make(chan struct{})
}
