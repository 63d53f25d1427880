// Package presence keeps one ephemeral node: there while the client is connected, owned by its session, with the data that was
// set last. It is what the recipes node and group share.
package presence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Config says which node to keep.
type Config struct {
	Client *session.Client
	Path   string
	Data   []byte
	// Refuse ends the Node if another session's node is at the path before ours ever was.
	Refuse bool
	// Replace says whether another session's node is to be deleted; nil is never.
	Replace func(data []byte, stat zk.Stat) bool
}

// State is what is known of the node. The fields are explained in package node.
type State struct {
	Present bool
	Czxid   int64
	Session int64
	zkrecipes.Freshness
	Err error
}

// same reports whether a caller that was told of s need not be told of now.
func (s State) same(now State) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return s.Present == now.Present && s.Czxid == now.Czxid && s.Current == now.Current && text(s.Err) == text(now.Err)
}

// The reasons why the node is not there that are no answer of the server.
var (
	ErrDeleted     = errors.New("deleted by another client")
	errOverwritten = errors.New("another client has written its data")
	errUnsettled   = errors.New("changes whenever it is looked at")
	errNotYet      = errors.New("not there yet")
	errLeaving     = errors.New("the node that this client kept there before is still being removed")
	errNoAnswer    = errors.New("not connected")
)

// Node keeps one node. Its goroutine does all that is written in ZooKeeper; callers say what they want and wait.
type Node struct {
	client  *session.Client
	path    string
	refuse  bool
	replace func([]byte, zk.Stat) bool
	claim   *session.Claim
	stop    context.CancelFunc
	done    chan struct{} // closed when the removal is complete, or the session over

	mu      sync.Mutex
	data    []byte
	wanted  int           // counts the data that callers have set
	written int           // the newest of them that the server has had
	state   State         // its freshness is that of age
	judged  int           // the newest data that state.Err can be about
	age     *session.Age  // nil if no server says what state says
	final   error         // why there will be no node any more
	stuck   error         // why the server does not allow the removal
	changed chan struct{} // closed, and replaced, when one of the above changes

	set chan struct{} // holds one: there is new data

	// Of the goroutine alone, see run.
	former  map[int64]struct{} // sessions before this one that may have left a node of ours
	trying  int                // the newest data when the present try began
	backOff backoff.BackOff
	since   time.Time // since when the present node has stood as it is to be; zero if it does not
	stood   bool      // the node was there once
}

// New begins to keep a node.
//
// Errors: a nil client, a bad path, data that is too large, a path that another Node of the client has, ErrClosed.
func New(cfg Config) (*Node, error) {
	if cfg.Client == nil {
		return nil, errors.New("client is nil: want one made by conn.Dial")
	}
	if cfg.Path == "/" {
		return nil, errors.New("path \"/\" is the root, which is always there: want a path such as /app/workers/w1")
	}
	n := &Node{
		client: cfg.Client, path: cfg.Path, refuse: cfg.Refuse, replace: cfg.Replace,
		data: bytes.Clone(cfg.Data), wanted: 1, state: State{Err: errNotYet},
		done: make(chan struct{}), changed: make(chan struct{}), set: make(chan struct{}, 1), former: make(map[int64]struct{}),
		backOff: newBackOff(),
	}
	if err := n.check(cfg.Data); err != nil {
		return nil, err
	}
	claim, ok := cfg.Client.Claim(cfg.Path)
	if !ok {
		return nil, fmt.Errorf("%s: this client keeps a node there already: close that first", cfg.Path)
	}
	n.claim = claim
	if claim.Before() != nil {
		n.state.Err = errLeaving
	}
	started := make(chan context.CancelFunc)
	if !cfg.Client.Go(func(client context.Context) {
		ctx, stop := context.WithCancel(client)
		defer stop()
		started <- stop
		n.awaitClaim(client)
		n.run(ctx, client)
		claim.Release()
		n.end()
	}) {
		claim.Release()
		return nil, fmt.Errorf("%s: %w", cfg.Path, zkrecipes.ErrClosed)
	}
	n.stop = <-started
	return n, nil
}

// check returns the error of data that no server would accept. A delete may be part of the same transaction.
func (n *Node) check(data []byte) error { return n.client.CheckCreate(n.path, data, 1, n.path) }

// Path returns the path of the node.
func (n *Node) Path() string { return n.path }

// State returns what is known now.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view()
}

// view is called with mu held.
func (n *Node) view() State {
	s := n.state
	if n.age != nil {
		s.Freshness = n.age.Freshness()
	}
	return s
}

// Changes calls yield with the state now, then after every change, until yield or ctx says stop, or the Node ends. A slow caller
// gets the newest state alone.
func (n *Node) Changes(ctx context.Context, yield func(State) bool) {
	var told *State
	for {
		n.mu.Lock()
		now, final, changed := n.view(), n.final != nil, n.changed
		var down <-chan struct{}
		if now.Current {
			down = n.age.Disconnected()
		}
		look := n.lookAgain()
		n.mu.Unlock()
		if told == nil || !told.same(now) {
			told = &now
			if !yield(now) {
				return
			}
			continue // it may have changed meanwhile
		}
		if final {
			return
		}
		select {
		case <-changed:
		case <-down:
		case <-look:
		case <-ctx.Done():
			return
		}
	}
}

// lookAgain fires when the state has to be looked at again, although it has not changed; nil is never. Called with mu held.
func (n *Node) lookAgain() <-chan time.Time {
	if n.age == nil {
		return nil
	}
	return time.After(n.age.LookAgain())
}

// Ready waits until the node is there.
func (n *Node) Ready(ctx context.Context) error {
	return n.await(ctx, 0, func() bool { return n.state.Present && n.view().Current })
}

// Set replaces the data, and waits until the server has had it, or newer data.
func (n *Node) Set(ctx context.Context, data []byte) error {
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

// Close removes the node, and waits until it is gone or its session over.
func (n *Node) Close(ctx context.Context) error {
	n.claim.Leave()
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
			return fmt.Errorf("%s: still being removed: %w", n.path, n.client.Explain(context.Cause(ctx)))
		}
	}
}

// await waits until isDone, which is called with mu held. What the server said of data before those with the number is no answer.
//
// Errors: why the server refuses the node; why the Node has ended; the cause of ctx with what is in the way.
func (n *Node) await(ctx context.Context, number int, isDone func() bool) error {
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

// inTheWay returns why the node is not known to be there with its data. Called with mu held.
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

// isRefusal reports whether err is an answer of the server that no waiting changes.
func isRefusal(err error) bool {
	for _, passing := range []error{
		zkrecipes.ErrTaken, zkrecipes.ErrLost, ErrDeleted, errOverwritten, errUnsettled, errNotYet, errLeaving, errNoAnswer,
	} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// broadcast wakes the callers that wait. Called with mu held.
func (n *Node) broadcast() {
	close(n.changed)
	n.changed = make(chan struct{})
}
