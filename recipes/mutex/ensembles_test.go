package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles runs a test in virtual time, with mutexes on the same path of two ensembles.
func ensembles(t *testing.T, test func(t *testing.T, x, y *mutex.Mutex)) {
	synctest.Test(t, func(t *testing.T) {
		first, second := zktest.Run(t, zktest.InMemory()), zktest.Run(t, zktest.InMemory())
		test(t, newMutex(t, bubble.Dial(t, first, "a"), mutex.WithReentrance()),
			newMutex(t, bubble.Dial(t, second, "a"), mutex.WithReentrance()))
		bubble.Clean(t, first, path)
		bubble.Clean(t, second, path)
	})
}

// briefly bounds a call that must not wait.
func briefly(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestLock_Nested_TellsEnsemblesApart(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		outer := lock(t, x)
		other, err := y.Lock(outer.Context())
		require.NoError(t, err)
		for _, c := range []struct {
			m    *mutex.Mutex
			want *zkrecipes.Hold
		}{{x, outer}, {y, other}} {
			h, err := c.m.Lock(briefly(other.Context(), t))
			require.NoError(t, err, "inside both")
			assert.Equal(t, c.want.Path(), h.Path())
			require.NoError(t, h.Release(t.Context()))
		}
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
	})
}

// A contender that would wait for a hold of its own context fails at once, because that hold ends after the wait.
func TestLock_OnePathThroughTwoClients_WouldWaitForItself(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y := newMutex(t, a), newMutex(t, b)
		h := lock(t, x)
		_, err := y.Lock(briefly(h.Context(), t))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = y.TryLock(h.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "a try does not wait")
		waiter := bubble.Start(context.WithoutCancel(h.Context()), func(ctx context.Context) (*zkrecipes.Hold, error) {
			require.NoError(t, h.Release(ctx))
			return y.Lock(ctx)
		})
		require.NoError(t, waiter.Granted(t, 0).Release(t.Context()), "the hold has ended")
	})
}

// The hold has ended, and its contender cannot be deleted yet. A caller whose context descends from the hold waits for
// the deletion like any other.
func TestLock_BehindAnEndedHoldOfItsContext_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := lock(t, newMutex(t, a))
		synctest.Wait()
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Delay(time.Second))
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, h.Release(ended), context.Canceled)
		waiting := bubble.Start(context.WithoutCancel(h.Context()), newMutex(t, b).Lock)
		waiting.Waits(t)
		require.NoError(t, waiting.Granted(t, time.Second).Release(t.Context()))
	})
}

// The ensemble does not report whether the contender exists. The call waits, as it would for any other contender.
func TestLock_WouldPerhapsWaitForItself_Waits(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		h := lock(t, newMutex(t, a))
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpSync, Path: h.Path()},
			zktest.Fail(zktest.CodeNoAuth))
		waiting := bubble.Start(h.Context(), newMutex(t, b).Lock)
		waiting.Waits(t)
		require.NoError(t, h.Release(t.Context()))
		require.ErrorIs(t, waiting.Failed(t, 0), zkrecipes.ErrReleased, "its context has ended")
	})
}
