package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// run is the goroutine of a Node: it keeps the node in one session after another. ctx ends with the Node, and the
// context client with the client. It does not use [client.Client.InSessions], because it reports the state of the node
// after refused credentials and after each end of a session.
func (n *Node) run(ctx, client context.Context) {
	for ctx.Err() == nil {
		_, n.trying = n.desired()
		s, err := n.client.Session(ctx)
		switch {
		case err == nil:
			if !n.serve(ctx, client, s) {
				return
			}
		case ctx.Err() != nil || errors.Is(err, zkrecipes.ErrClosed):
			return
		default: // the credentials are refused, and the client keeps trying
			n.failed(State{}, nil, err)
			n.sleep(ctx, nil, nil)
		}
	}
}

// awaitClaim waits until the previous Node, which was closed, has removed its node. A Node that is itself closed waits
// too, because the next one waits only for it.
func (n *Node) awaitClaim(client context.Context) {
	before := n.claim.Before()
	if before == nil {
		return
	}
	select {
	case <-before:
		n.tell(State{Err: errNotYet}, nil, 0)
	case <-client.Done():
	}
}

// serve keeps the node in one session. It returns false if there must be no node in the next one.
func (n *Node) serve(ctx, client context.Context, s *session.Session) bool {
	k := &keeper{Node: n, session: s}
	defer func() { s.Unwatch(k.last) }() // it may be on the node of another session
	for {
		_, n.trying = n.desired()
		r, err := k.keep(ctx)
		n.claim.SeenTo(s)
		switch {
		case s.Err() != nil:
			n.tell(State{Err: s.Err(), Freshness: zkrecipes.Freshness{AsOf: time.Now()}}, nil, 0)
			return true
		case ctx.Err() != nil:
			k.remove(client)
			return false
		case err == nil:
			if n.since.IsZero() {
				n.since = time.Now()
			}
			k.watch(ctx, n.set)
		case errors.Is(err, zkrecipes.ErrTaken):
			n.failed(k.seen, r, err)
			if n.refuse && !n.stood {
				n.claim.Leave()
				n.finish(err)
				if k.doubt {
					k.remove(client) // a create may still be in flight
				}
				return false
			}
			k.watch(ctx, nil)
		case k.hangups > 1 && errors.Is(err, zkrecipes.ErrTooLarge):
			n.failed(k.seen, r, err)
			n.since = time.Time{}
			n.pause(ctx, hungUp, s.Done(), n.set, k.look)
		default:
			n.failed(k.seen, r, err)
			n.sleep(ctx, s.Done(), k.look)
		}
	}
}

// failed reports and logs why the node does not exist, or does not have its data.
func (n *Node) failed(seen State, r *session.Age, err error) {
	if now := n.State(); !sameReason(now.Err, err) {
		n.client.Logger().Warn("zookeeper: our node is missing or has outdated data",
			"path", n.path, "there", seen.Exists, "error", recipe.Loggable(err))
	}
	seen.Err, seen.AsOf = err, time.Now()
	n.tell(seen, r, 0)
}

// sameReason reports whether err needs no new log line after was. The data of the node that another client has at the
// path may change all the time, and so may the number of bytes of a session that is full.
func sameReason(was, err error) bool {
	var before, now *zkrecipes.TakenError
	if errors.As(was, &before) && errors.As(err, &now) {
		return before.Czxid == now.Czxid
	}
	return was != nil && (was.Error() == err.Error() ||
		errors.Is(was, zkrecipes.ErrSessionFull) && errors.Is(err, zkrecipes.ErrSessionFull))
}

// end is the last step of the goroutine.
func (n *Node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.final == nil {
		n.final = fmt.Errorf("%s: %w", n.path, zkrecipes.ErrClosed)
	}
	n.state, n.age = State{Err: n.final, Freshness: zkrecipes.Freshness{AsOf: time.Now()}}, nil
	close(n.done)
	n.broadcast()
}

// desired returns the data that the node should have, and its number.
func (n *Node) desired() ([]byte, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.data, n.wanted
}

// tell records a state, the reading that it comes from, and the number of the data that the server has had.
func (n *Node) tell(s State, r *session.Age, written int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.age, n.judged, n.written = s, r, n.trying, max(n.written, written)
	n.broadcast()
}

// outdated records that the state may no longer be true.
func (n *Node) outdated() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = n.view()
	n.state.Current, n.age = false, nil
	n.broadcast()
}

// sleep waits before the next attempt, but not if the node has existed for long.
func (n *Node) sleep(ctx context.Context, done <-chan struct{}, look *session.Watch) {
	stood := !n.since.IsZero() && time.Since(n.since) >= steady
	n.since = time.Time{}
	if stood {
		n.pauses.Reset()
		return
	}
	n.pause(ctx, n.pauses.NextBackOff(), done, nil, look)
}

// pause blocks for d, or until there is new data. If the watch fires meanwhile, the state ceases to be current, but the
// change is read only after the pause: an event must not shorten it.
func (n *Node) pause(ctx context.Context, d time.Duration, done, set <-chan struct{}, look *session.Watch) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	fired := look.Fired()
	for {
		select {
		case <-fired:
			n.outdated()
			fired = nil
			continue
		case <-timer.C:
		case <-set:
		case <-done:
		case <-ctx.Done():
		}
		return
	}
}

// made records that our node exists now.
func (n *Node) made() {
	n.since, n.stood = time.Now(), true
}

// These are the pauses before a node is created again. They grow, unless the node existed for the time steady before.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	steady     = 10 * time.Second
)

// hungUp is the pause after data on which servers hang up: each attempt costs the client its connection.
const hungUp = time.Minute
