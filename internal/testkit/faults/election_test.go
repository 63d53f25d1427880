package faults_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// stay is the body of a leader. It stays until its term ends, and records when it began and ended.
type stay struct {
	w            *world
	began, ended chan time.Duration
}

func newStay(w *world) stay {
	return stay{w, make(chan time.Duration, 10), make(chan time.Duration, 10)}
}

func (s stay) lead(ctx context.Context, _ *election.Term) error {
	s.began <- s.w.now()
	<-ctx.Done()
	s.ended <- s.w.now()
	return context.Cause(ctx)
}

func (w *world) election(label string, opts ...election.Option) *election.Election {
	layout := election.Latch
	if w.name == "selector" {
		layout = election.Selector
	}
	e, err := election.New(w.client(label), path, append(opts, election.WithLayout(layout))...)
	require.NoError(w, err)
	return e
}

// elections runs a script against both layouts.
func elections(t *testing.T, script func(w *world)) {
	for _, name := range []string{"latch", "selector"} {
		t.Run(name, func(t *testing.T) { runScript(t, named(name), script) })
	}
}

// TestF54_LeaderCutOffDuringItsTerm: the leader's body ends before the next leader's body begins. When the old leader
// reconnects, it campaigns again, and leads again after the other one. Both use the same id. Observers converge.
func TestF54_LeaderCutOffDuringItsTerm(t *testing.T) {
	elections(t, func(w *world) {
		ctx, stop := context.WithCancelCause(w.Context())
		a, b := newStay(w), newStay(w)
		errs := make(chan error, 2)
		run := func(label string, s stay) {
			e := w.election(label, election.WithData([]byte("same")))
			go func() { errs <- e.Run(ctx, s.lead) }()
			synctest.Wait()
		}
		run("a", a)
		require.Equal(w, time.Duration(0), <-a.began)
		run("b", b)
		seen := make(chan zkrecipes.Token, 100)
		observing, end := context.WithCancel(w.Context())
		defer end()
		observer := w.election("o")
		go func() {
			for l, err := range observer.Watch(observing) {
				if err == nil && l.Exists {
					seen <- l.Leader.Token
				}
			}
		}()
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		require.Equal(w, lost, <-a.ended)
		require.Equal(w, expired, <-b.began)
		w.until(time.Minute)
		w.srv.Heal(zktest.Label("a"))
		w.until(time.Minute + timeout)
		require.Empty(w, a.began)
		list, err := observer.Queue(w.Context())
		require.NoError(w, err)
		require.Len(w, list, 2)
		w.srv.Expire(w.srv.SessionOf("b"))
		require.Equal(w, time.Minute+timeout, <-b.ended)
		require.Equal(w, time.Minute+timeout, <-a.began)
		synctest.Wait()
		leader, err := observer.Leader(w.Context())
		require.NoError(w, err)
		var last zkrecipes.Token
		terms := 0
		for len(seen) > 0 {
			token := <-seen
			require.Greater(w, token, last)
			last = token
			terms++
		}
		require.Equal(w, leader.Token, last)
		require.Equal(w, 3, terms)
		stop(errEnough)
		require.ErrorIs(w, <-errs, errEnough)
		require.ErrorIs(w, <-errs, errEnough)
	})
}

// TestF43_LeaderPanics: the leadership is released, and the panic continues.
func TestF43_LeaderPanics(t *testing.T) {
	elections(t, func(w *world) {
		b := (*attempt)(nil)
		require.PanicsWithValue(w, "out of order", func() {
			_ = w.election("a").Run(w.Context(), func(context.Context, *election.Term) error {
				b = w.take("b")
				b.requireWaiting()
				panic("out of order")
			})
		})
		b.requireGrantedAt(0)
	})
}

// TestF43_LeaderBlocks: a body that ignores its context blocks only its own Run. The leadership ends, other candidates
// lead, and the client keeps working.
func TestF43_LeaderBlocks(t *testing.T) {
	elections(t, func(w *world) {
		wake := make(chan struct{})
		done := make(chan error, 1)
		e := w.election("a")
		go func() {
			done <- e.Run(w.Context(), func(context.Context, *election.Term) error {
				<-wake
				return errEnough
			})
		}()
		synctest.Wait()
		b := w.take("b")
		w.until(cut)
		w.srv.Expire(w.srv.SessionOf("a"))
		b.requireGrantedAt(cut)
		w.until(time.Minute)
		leader, err := e.Leader(w.Context())
		require.NoError(w, err)
		require.Equal(w, "b", leader.Name)
		require.Empty(w, done)
		close(wake)
		require.ErrorIs(w, <-done, errEnough)
	})
}

// TestF54_ObserverCutOff: the observer converges once it reconnects, in the same session or in a new one.
func TestF54_ObserverCutOff(t *testing.T) {
	elections(t, func(w *world) {
		o := w.election("o")
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		var last election.Leadership
		go func() {
			for l, err := range o.Watch(ctx) {
				if err == nil {
					last = l
				}
			}
		}()
		for _, away := range []time.Duration{timeout / 2, 3 * timeout} {
			a := w.take("a")
			w.until(w.now() + 2*time.Second)
			require.Equal(w, a.hold.Token(), last.Leader.Token)
			w.isolate("o")
			a.release()
			b := w.take("b")
			require.False(w, last.Current, "told at once")
			w.until(w.now() + away)
			require.Equal(w, a.hold.Token(), last.Leader.Token)
			w.srv.Accept(zktest.Label("o"))
			w.until(w.now() + pause + blink)
			require.Equal(w, b.hold.Token(), last.Leader.Token)
			require.True(w, last.Current)
			b.release()
			require.False(w, last.Exists)
		}
		require.False(w, errors.Is(ctx.Err(), context.Canceled))
	})
}
