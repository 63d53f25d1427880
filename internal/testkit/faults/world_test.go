package faults_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Scripts reckon with these times. The network of the bubble takes no time, so all delays come from them.
const (
	// timeout is the session timeout.
	timeout = 10 * time.Second
	// tick is the server's tick: a session expires at the first multiple of it after the timeout has passed.
	tick = 2 * time.Second
	// pause is the time between failing attempts to connect.
	pause = 100 * time.Millisecond
	// blink bounds the delay of work that a lost connection interrupts and that continues at once on the next one. It
	// covers the wait before a request is repeated, and requests held back until the watches are set again.
	blink = 60 * time.Millisecond
)

// world is one script in one bubble: a server, a recipe, clients by name, and their history.
type world struct {
	*testing.T
	*recipe
	srv     *zktest.Server
	start   time.Time
	rec     *check.Recorder
	mu      sync.Mutex // a blow may look up a client while the script dials another
	clients map[string]*conn.Client
	tries   []*attempt
}

// each runs a script for every recipe, then checks the rules that must always hold.
func each(t *testing.T, script func(w *world), opts ...zktest.Option) {
	t.Helper()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) { runScript(t, r, script, opts...) })
	}
}

func runScript(t *testing.T, r *recipe, script func(w *world), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, append([]zktest.Option{zktest.InMemory(), zktest.WithTickTime(tick)}, opts...)...)
		w := &world{T: t, recipe: r, srv: srv, start: time.Now(), clients: map[string]*conn.Client{}}
		w.rec = &check.Recorder{Now: func() int64 { return int64(w.now()) }}
		script(w)
		w.settle()
	})
}

// now is the virtual time since the script began.
func (w *world) now() time.Duration { return time.Since(w.start) }

// until lets time pass until at.
func (w *world) until(at time.Duration) {
	w.Helper()
	require.LessOrEqual(w, w.now(), at, "the script is late")
	time.Sleep(at - w.now())
	synctest.Wait()
}

// client returns the client with the label, which it dials on first use.
func (w *world) client(label string, opts ...conn.Option) *conn.Client {
	w.Helper()
	w.mu.Lock()
	c := w.clients[label]
	w.mu.Unlock()
	if c == nil {
		opts = append([]conn.Option{
			conn.WithSessionTimeout(timeout),
			conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(pause) }),
		}, opts...)
		c = bubble.Dial(w, w.srv, label, opts...)
		w.mu.Lock()
		w.clients[label] = c
		w.mu.Unlock()
	}
	return c
}

// attempt is one acquisition in a separate goroutine, and its hold.
type attempt struct {
	w        *world
	label    string
	cancel   context.CancelCauseFunc
	returned chan struct{}
	// Valid once returned is closed.
	hold *zkrecipes.Hold
	err  error
	at   time.Duration
	// over is when the hold had ended. It is valid once ended is closed.
	ended chan struct{}
	over  time.Duration
}

// take starts an acquisition by the client with the label. rival acquires what excludes it.
func (w *world) take(label string) *attempt { return w.begin(label, w.recipe, w.client(label)) }

func (w *world) rivals(label string) *attempt { return w.begin(label, w.rival, w.client(label)) }

func (w *world) begin(label string, r *recipe, c *conn.Client) *attempt {
	w.Helper()
	h, err := r.open(c, []byte(label))
	require.NoError(w, err)
	return w.acquire(label, r, h.take)
}

// acquire runs take in a separate goroutine, and records the result.
func (w *world) acquire(label string, r *recipe, take acquire) *attempt {
	w.Helper()
	ctx, cancel := context.WithCancelCause(w.Context())
	a := &attempt{w: w, label: label, cancel: cancel, returned: make(chan struct{}), ended: make(chan struct{})}
	w.tries = append(w.tries, a)
	op := r.call(w.rec, label)
	go func() {
		a.hold, a.err = take(ctx)
		a.at = w.now()
		if a.err != nil {
			op.Failed()
			close(a.ended)
		} else {
			op.GrantedHold(a.hold)
		}
		close(a.returned)
		if a.err != nil {
			return
		}
		<-a.hold.Done()
		a.over = w.now()
		if errors.Is(a.hold.Err(), zkrecipes.ErrLost) {
			op.Lost()
		} else {
			op.Released()
		}
		close(a.ended)
	}()
	synctest.Wait()
	return a
}

// requireWaiting requires that the attempt is still waiting.
func (a *attempt) requireWaiting() {
	a.w.Helper()
	synctest.Wait()
	select {
	case <-a.returned:
		a.w.Fatalf("%s: granted or failed at %v: %v", a.label, a.at, a.err)
	default:
	}
}

// requireNoUse is requireWaiting for a waiter whose session the server has just ended. One transaction deleted both its
// node and its predecessor. If the server reports the predecessor first, an armed waiter is granted, and loses its hold
// in that instant.
func (a *attempt) requireNoUse() {
	a.w.Helper()
	synctest.Wait()
	select {
	case <-a.returned:
		require.NoError(a.w, a.err, a.label)
		a.requireExpiredAt(a.at)
	default:
	}
}

// holds reports whether the attempt was granted, and its hold has not ended.
func (a *attempt) holds() bool {
	select {
	case <-a.returned:
		return a.err == nil && a.hold.Err() == nil
	default:
		return false
	}
}

// requireGranted waits for the grant, which must come within the given time from now. 0 means in this instant.
func (a *attempt) requireGranted(within time.Duration) *zkrecipes.Hold {
	a.w.Helper()
	a.await(within)
	require.NoError(a.w, a.err, a.label)
	return a.hold
}

// requireGrantedAt waits for the grant, which must come at the given time of the script.
func (a *attempt) requireGrantedAt(at time.Duration) {
	a.w.Helper()
	a.requireGranted(max(0, at-a.w.now()))
	require.Equal(a.w, at, a.at, "%s: granted at another time", a.label)
}

func (a *attempt) await(within time.Duration) {
	a.w.Helper()
	synctest.Wait()
	select {
	case <-a.returned:
		return
	default:
	}
	select {
	case <-a.returned:
	case <-time.After(within):
		synctest.Wait() // both may happen in that very instant
		select {
		case <-a.returned:
		default:
			a.w.Fatalf("%s: still waiting at %v", a.label, a.w.now())
		}
	}
}

// requireFailed returns the error of an attempt, which must have failed by now.
func (a *attempt) requireFailed() error {
	a.w.Helper()
	a.await(0)
	require.Error(a.w, a.err, "%s: granted at %v", a.label, a.at)
	return a.err
}

// requireHeld requires that the hold is held now.
func (a *attempt) requireHeld() {
	a.w.Helper()
	synctest.Wait()
	require.NoError(a.w, a.hold.Err(), a.label)
	require.NoError(a.w, context.Cause(a.hold.Context()), a.label)
}

// requireExpiredAt is requireLostAt for a hold whose session the server has just ended. The server reports the deletion
// first, and the holder may not have set its watch yet.
func (a *attempt) requireExpiredAt(at time.Duration) {
	a.w.Helper()
	<-a.ended
	var lost *zkrecipes.LostError
	require.ErrorAs(a.w, a.hold.Err(), &lost, a.label)
	require.Contains(a.w, []zkrecipes.LossReason{zkrecipes.LossExpired, zkrecipes.LossNodeDeleted}, lost.Reason, a.label)
	a.requireLostAt(at, lost.Reason)
}

// requireLostAt waits for the loss of the hold, which must come at the given time of the script and for the given
// reason.
func (a *attempt) requireLostAt(at time.Duration, reason zkrecipes.LossReason) {
	a.w.Helper()
	select {
	case <-a.ended:
	case <-time.After(max(0, at-a.w.now()) + time.Nanosecond):
		a.w.Fatalf("%s: still held at %v", a.label, a.w.now())
	}
	require.Equal(a.w, at, a.over, "%s: lost at another time", a.label)
	var lost *zkrecipes.LostError
	require.ErrorAs(a.w, a.hold.Err(), &lost, a.label)
	require.Equal(a.w, reason, lost.Reason, a.label)
	require.Equal(a.w, at, lost.At.Sub(a.w.start), a.label)
	require.Equal(a.w, a.hold.Path(), lost.Path, a.label)
	require.Equal(a.w, a.hold.Err(), context.Cause(a.hold.Context()), a.label)
	require.ErrorIs(a.w, a.hold.Release(a.w.Context()), zkrecipes.ErrLost, a.label)
}

// release releases the hold, which must take no time.
func (a *attempt) release() {
	a.w.Helper()
	from := a.w.now()
	require.NoError(a.w, a.hold.Release(a.w.Context()), a.label)
	require.Equal(a.w, from, a.w.now(), "%s: the release took its time", a.label)
	synctest.Wait()
}

// isolate cuts off the client with the label, permanently.
func (w *world) isolate(label string) {
	trial.CutOff(w.srv, zktest.Label(label))
}

// contenders lists the nodes of holders and waiters.
func (w *world) contenders() []string {
	synctest.Wait()
	var list []string
	for _, name := range w.srv.Children(w.parent) {
		list = append(list, w.parent+"/"+name)
	}
	return list
}

// contendersOf lists the contenders of a client's newest session.
func (w *world) contendersOf(label string) []string {
	synctest.Wait()
	var list []string
	for _, p := range w.srv.Ephemerals(w.srv.SessionOf(label)) {
		if strings.HasPrefix(p, w.parent+"/") {
			list = append(list, p)
		}
	}
	return list
}

// requireContenders requires that there are now as many contenders as the given number of holds needs.
func (w *world) requireContenders(holds int) {
	w.Helper()
	require.Len(w, w.contenders(), holds*w.nodes)
}

// settle ends every attempt, waits for the clean-up, and checks the rules that hold after every script: U1 exclusion
// and order, U3 no waiter is left, U4 leftovers, U5 watches. The bubble checks that no goroutine is left.
func (w *world) settle() {
	w.Helper()
	w.srv.Accept(zktest.Everyone)
	w.srv.Heal(zktest.Everyone)
	time.Sleep(3 * timeout)
	for _, a := range w.tries {
		a.cancel(errors.New("the script is over"))
		a.await(0)
		if a.err == nil {
			_ = a.hold.Release(w.Context()) // it may already be lost
		}
	}
	time.Sleep(3 * timeout)
	synctest.Wait()
	require.NoError(w, check.Leftovers(path, w.tree(), "locks", "leases"), "while the clients live")
	total, paths := w.srv.Watches()
	// Waiters that gave up leave a few watches per client, on paths that still exist.
	require.LessOrEqual(w, total, 3*len(w.clients), "watches on %d paths", paths)
	w.judge()
	for _, c := range w.clients {
		require.NoError(w, c.Close())
	}
	synctest.Wait()
	require.Empty(w, w.srv.Sessions())
}

func (w *world) tree() []string {
	var list []string
	for _, n := range w.srv.Tree(path) {
		list = append(list, n.Path)
	}
	return list
}

// judge checks exclusion and order. The stamps are virtual time: of two valid holds, one ended before the other began,
// or in the same instant.
func (w *world) judge() {
	w.Helper()
	holds, err := w.rec.Holds()
	require.NoError(w, err)
	limit := w.limit
	if w.rival != w.recipe || w.read {
		holds, limit = check.ReadWrite(holds)
	}
	require.NoError(w, check.Exclusion(holds, limit))
	require.NoError(w, check.Order(holds, limit))
}
