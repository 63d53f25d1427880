package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// blow is a fault that strikes at one request of a client.
type blow struct {
	name   string
	action func(w *world, a *attempt) zktest.Action
	// costs is how long it may delay the grant.
	costs time.Duration
	// fatal means that the caller caused it, so the attempt may fail because of it.
	fatal bool
}

// A blow strikes before a request is served, or between that and the answer.
var blows = func() []blow {
	// If the connection has lasted, the client reconnects at once; after a short-lived one it pauses first.
	const reconnect = 2*pause + blink
	list := []blow{
		{"request lost", func(*world, *attempt) zktest.Action { return zktest.DropRequest() }, reconnect, false},
		{"reply lost", func(*world, *attempt) zktest.Action { return zktest.DropReply() }, reconnect, false},
		{"late", func(*world, *attempt) zktest.Action { return zktest.HoldReply(timeout / 5) }, timeout / 5, false},
		// The answer takes longer than a sync may, so the client drops the connection.
		{
			"later", func(*world, *attempt) zktest.Action { return zktest.HoldReply(timeout / 2) },
			timeout/4 + timeout/8 + reconnect, false,
		},
		{"throttled", func(*world, *attempt) zktest.Action { return zktest.Fail(throttled) }, blink, false},
	}
	for _, at := range []struct {
		name string
		when func(func(zktest.Request)) zktest.Action
	}{{"before ", zktest.Before}, {"after ", zktest.After}} {
		for _, e := range []struct {
			name  string
			fatal bool
			do    func(w *world, a *attempt)
		}{
			{"cancelled", true, func(_ *world, a *attempt) { a.cancel(errEnough) }},
			{"closed", true, func(w *world, a *attempt) { go func() { _ = w.client(a.label).Close() }() }},
			{"expired", false, func(w *world, a *attempt) { w.srv.Expire(w.srv.SessionOf(a.label)) }},
			{"restarted", false, func(w *world, _ *attempt) { w.srv.Restart() }},
			{"reaped", false, func(w *world, _ *attempt) { w.srv.Reap() }},
			{"own nodes deleted", false, func(w *world, a *attempt) {
				for _, p := range w.srv.Ephemerals(w.srv.SessionOf(a.label)) {
					_ = w.srv.Delete(p) // unless the other of two nodes is gone
				}
			}},
			{"all deleted", false, func(w *world, _ *attempt) { _ = w.srv.DeleteAll("/app") }},
		} {
			list = append(list, blow{at.name + e.name, func(w *world, a *attempt) zktest.Action {
				return at.when(func(zktest.Request) { e.do(w, a) })
			}, reconnect, e.fatal})
		}
	}
	return list
}()

var errEnough = errors.New("enough")

// TestEveryStep injects each fault at each request of one acquisition and its release, one fault per run, with and
// without a holder ahead. The attempt must be granted, or fail because of the caller. Then the next client must be
// served, and no node may be left. This covers all moments of F1, F2, F6, F7, F9 to F12, F25 to F29, F40, F44 and F45.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	stride := 5 / bubble.Rounds(5)
	for n, b := range blows {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range recipes {
				t.Run(r.name, func(t *testing.T) {
					for _, behind := range []bool{false, true} {
						for step := n % stride; ; step += stride {
							var hit bool
							runScript(t, r, func(w *world) { hit = w.strike(b, behind, step) })
							if !hit || t.Failed() {
								t.Logf("%d steps, behind another: %v", step, behind)
								break
							}
						}
					}
				})
			}
		})
	}
}

// strike is one run: the blow strikes at request number step. It reports whether there was such a request.
func (w *world) strike(b blow, behind bool, step int) (hit bool) {
	w.rivals("b").release() // creates the parents, unless
	if step%2 == 1 && w.kazoo {
		require.NoError(w, w.srv.DeleteAll("/app")) // they have to be created again, and nothing reaps them
	} else if step%2 == 1 {
		require.NotEmpty(w, w.srv.Reap()) // they have to be created again
		w.srv.Reap()
	}
	w.client("a")
	var first *attempt
	if behind {
		first = w.rivals("b")
		first.requireGranted(0)
	}
	w.until(2 * time.Second)
	var a *attempt
	m := zktest.Match{From: zktest.Label("a"), Skip: step, Where: func(q zktest.Request) bool {
		return q.Op != zktest.OpSync || q.Path != "/" // heartbeats are sent at other times
	}}
	// The attempt must exist before the blow, and the blow must be armed before the first request.
	armed := make(chan struct{})
	w.srv.Intercept(zktest.Match{From: zktest.Label("a")}, zktest.DelayUntil(armed))
	a = w.take("a")
	rule := w.srv.Intercept(m, b.action(w, a))
	close(armed)
	if behind {
		w.until(4 * time.Second)
		_ = first.hold.Release(w.Context()) // the blow may have ended it
	}
	w.finish(a, b)
	// The next client is served by the time a session that could not be closed has expired.
	c := w.rivals("c")
	c.requireGranted(timeout + tick)
	c.release()
	hit = rule.Hits() > 0
	rule.Remove()
	return hit
}

// finish waits for the end of the attempt, and checks that it may end like this.
func (w *world) finish(a *attempt, b blow) {
	a.await(b.costs)
	if a.err != nil {
		require.True(w, b.fatal, "failed by itself: %v", a.err)
		require.True(w, errors.Is(a.err, errEnough) || errors.Is(a.err, zkrecipes.ErrClosed), a.err)
		return
	}
	time.Sleep(time.Second)
	ctx, cancel := context.WithTimeout(w.Context(), 2*timeout)
	defer cancel()
	if err := a.hold.Release(ctx); err != nil {
		require.ErrorIs(w, err, zkrecipes.ErrLost)
	}
}
