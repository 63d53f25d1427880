package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lose names the two ways of losing a request.
var lose = map[string]zktest.Action{"not applied": zktest.DropRequest(), "applied": zktest.DropReply()}

// TestF1F2_CreateLost: the connection breaks at the create, before or after the server applies it. The result is one
// node, whose czxid is the token.
func TestF1F2_CreateLost(t *testing.T) {
	for name, action := range lose {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.take("a").release()
				w.until(2 * time.Second) // the connection has lasted, so the client reconnects without a pause
				rule := w.srv.Intercept(w.creates(), action)
				a := w.take("a")
				h := a.requireGranted(blink)
				require.Equal(w, 1, rule.Hits())
				w.requireContenders(1)
				node, ok := w.srv.Node(h.Path())
				require.True(w, ok)
				require.Equal(w, int64(h.Token()), node.Stat.Czxid)
				require.NoError(w, h.Check(w.Context()))
			})
		})
	}
}

// TestF1F2_CreateLost_AgainAndAgain: the create is lost several times in a row.
func TestF1F2_CreateLost_AgainAndAgain(t *testing.T) {
	for name, action := range lose {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				w.take("a").release()
				m := w.creates()
				m.Times = 5
				w.srv.Intercept(m, action)
				w.take("a").requireGranted(5 * (pause + blink))
				w.requireContenders(1)
			})
		})
	}
}

// TestF4_ReplyLost_CallerGone: the call ends with its context. The client itself removes the node as soon as it has
// reconnected.
func TestF4_ReplyLost_CallerGone(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		w.until(time.Second)
		w.srv.Intercept(w.creates(), zktest.After(func(zktest.Request) { w.isolate("a") }))
		a := w.take("a")
		b := w.rivals("b")
		w.until(2 * time.Second)
		a.cancel(context.Canceled)
		require.ErrorIs(w, a.requireFailed(), context.Canceled)
		w.until(4 * time.Second)
		b.requireWaiting()
		require.Len(w, w.contendersOf("a"), w.nodes)
		session := w.srv.SessionOf("a")
		w.srv.Accept(zktest.Label("a"))
		// The clean-up waits for the connection, which waits for a last pause.
		b.requireGranted(pause + blink)
		require.Equal(w, session, w.srv.SessionOf("a"))
		require.Empty(w, w.contendersOf("a"))
	})
}

// TestF4_ReplyLate_CallerGoneForAnotherError: the context of the call ends with the error of another call, as the
// context of an errgroup does. The server's answer to that call says nothing about the create.
func TestF4_ReplyLate_CallerGoneForAnotherError(t *testing.T) {
	for _, other := range []error{zk.ErrNoNode, &zkrecipes.OpError{Op: "get", Path: "/config", Err: zk.ErrNoNode}} {
		each(t, func(w *world) {
			w.take("a").release()
			w.until(time.Second)
			w.srv.Intercept(w.creates(), zktest.HoldReply(time.Second))
			a := w.take("a")
			w.until(1500 * time.Millisecond)
			require.NotEmpty(w, w.contendersOf("a"))
			a.cancel(other)
			err := a.requireFailed()
			require.ErrorContains(w, err, other.Error())
			require.NotErrorIs(w, err, zk.ErrNoNode, "it is no answer to this call")
			w.until(3 * time.Second)
			require.Empty(w, w.contendersOf("a"))
		})
	}
}

// TestF4_ReplyLost_ClientGoneForGood: other waiters wait until the session expires, and no longer.
func TestF4_ReplyLost_ClientGoneForGood(t *testing.T) {
	each(t, func(w *world) {
		w.take("a").release()
		w.until(cut)
		w.srv.Intercept(w.creates(), zktest.After(func(zktest.Request) { w.isolate("a") }))
		a := w.take("a")
		b := w.rivals("b")
		a.cancel(context.Canceled)
		_ = a.requireFailed()
		b.requireWaiting()
		b.requireGrantedAt((cut + timeout).Truncate(tick) + tick) // the server has received the create
	})
}

// TestF6F7_DeleteLost: a release whose delete is lost, applied or not, costs one reconnect. The next acquisition with
// the same handle works normally.
func TestF6F7_DeleteLost(t *testing.T) {
	for name, action := range lose {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				a := w.take("a")
				b := w.rivals("b")
				w.until(2 * time.Second)
				w.srv.Intercept(w.deletes(), action)
				require.NoError(w, a.hold.Release(w.Context()))
				require.LessOrEqual(w, w.now(), 2*time.Second+blink)
				require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrReleased)
				<-a.ended
				require.Equal(w, 2*time.Second, a.over, "ended before its node was touched")
				b.requireGranted(0)
				b.release()
				w.take("a").requireGranted(0)
			})
		})
	}
}

// TestF8_ReleaseWhileCutOffForGood: Release returns when the session is over, which removes the node, or when its
// context ends.
func TestF8_ReleaseWhileCutOffForGood(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(cut)
		w.srv.Stall(zktest.Label("a"), zktest.Both)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, a.hold.Release(ctx), context.DeadlineExceeded)
		require.Equal(w, cut+time.Second, w.now())
		require.NoError(w, a.hold.Release(w.Context()))
		require.Equal(w, silent, w.now())
		require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrReleased)
		b.requireWaiting()
		b.requireGrantedAt(expired)
	})
}

// TestF44_ReleaseWithDeadContext: the hold is released nevertheless.
func TestF44_ReleaseWithDeadContext(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(time.Second)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		w.srv.Intercept(w.deletes(), zktest.Delay(time.Second))
		require.ErrorIs(w, a.hold.Release(ctx), context.Canceled)
		require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrReleased)
		b.requireWaiting()
		b.requireGrantedAt(2 * time.Second)
		require.NoError(w, a.hold.Release(w.Context()), "again, to wait for it")
	})
}

// TestF44_ContextEndsWhenItIsAsked: the caller's context ends at each of the moments at which the library checks it,
// with and without a holder ahead. The caller gets a hold, or the cause; with the cause, nothing stays behind: no node,
// hold or heartbeat.
func TestF44_ContextEndsWhenItIsAsked(t *testing.T) {
	each(t, func(w *world) {
		h, err := w.open(w.client("a"), []byte("a"))
		require.NoError(w, err)
		for _, behind := range []bool{false, true} {
			for looks := int64(1); ; looks++ {
				var first *attempt
				if behind {
					first = w.rivals("b")
					first.requireGranted(0)
				}
				ctx := bubble.EndWhenAsked(w.Context(), looks, errEnough)
				a := w.acquire("a", w.recipe, func(context.Context) (*zkrecipes.Hold, error) { return h.take(ctx) })
				if behind {
					first.release()
				}
				a.await(blink)
				if a.err == nil {
					a.release()
				} else {
					require.ErrorIs(w, a.err, errEnough)
				}
				w.requireContenders(0)
				if ctx.Lives() {
					w.Logf("%d looks, behind another: %v", looks-1, behind)
					break
				}
			}
		}
		time.Sleep(time.Minute)
		require.Zero(w, bubble.Syncs(w.srv, zktest.Label("a")))
	})
}

// TestF45_Closed: all waiters of the client return at once. Its nodes are gone when Close returns.
func TestF45_Closed(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		c := w.begin("b", w.rival, w.client("b"))
		d := w.take("d")
		w.until(time.Second)
		require.NoError(w, w.client("b").Close())
		require.Equal(w, time.Second, w.now())
		require.ErrorIs(w, b.requireFailed(), zkrecipes.ErrClosed)
		require.ErrorIs(w, c.requireFailed(), zkrecipes.ErrClosed)
		require.Empty(w, w.contendersOf("b"))
		require.NoError(w, w.client("a").Close())
		a.requireLostAt(time.Second, zkrecipes.LossClosed)
		d.requireGranted(0)
		require.ErrorIs(w, w.begin("a", w.recipe, w.client("a")).requireFailed(), zkrecipes.ErrClosed)
	})
}

// TestF45_ClosedWhileReleasing: the release ends with the client.
func TestF45_ClosedWhileReleasing(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		b := w.rivals("b")
		w.until(time.Second)
		w.srv.Intercept(w.deletes(), zktest.Ignore())
		done := make(chan error, 1)
		go func() { done <- a.hold.Release(w.Context()) }()
		w.until(1500 * time.Millisecond)
		require.NoError(w, w.client("a").Close())
		require.NoError(w, <-done)
		require.Equal(w, 1500*time.Millisecond, w.now())
		b.requireGranted(0)
	})
}

// TestF48_ReleasedTwice: the second release returns at once and does nothing.
func TestF48_ReleasedTwice(t *testing.T) {
	each(t, func(w *world) {
		a := w.take("a")
		deletes := w.srv.Intercept(func() zktest.Match { m := w.deletes(); m.Times = -1; return m }(), zktest.Proceed())
		errs := make(chan error, 10)
		for range 10 {
			go func() { errs <- a.hold.Release(w.Context()) }()
		}
		for range 10 {
			require.NoError(w, <-errs)
		}
		require.Equal(w, 1, deletes.Hits())
		require.ErrorIs(w, a.hold.Err(), zkrecipes.ErrReleased)
	})
}
