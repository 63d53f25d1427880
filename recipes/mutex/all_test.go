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
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// ensembles runs a test in virtual time, with the mutexes on one path of two ensembles.
func ensembles(t *testing.T, test func(t *testing.T, x, y *mutex.Mutex)) {
	synctest.Test(t, func(t *testing.T) {
		first, second := zktest.Run(t, zktest.InMemory()), zktest.Run(t, zktest.InMemory())
		test(t, newMutex(t, bubble.Dial(t, first, "a")), newMutex(t, bubble.Dial(t, second, "a")))
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

func TestLockAll_OnePathOfTwoEnsembles(t *testing.T) {
	ensembles(t, func(t *testing.T, x, y *mutex.Mutex) {
		all, err := mutex.LockAll(briefly(t.Context(), t), x, y, x, y)
		require.NoError(t, err)
		for _, m := range []*mutex.Mutex{x, y} {
			h, err := m.Lock(briefly(all.Context(), t))
			require.NoError(t, err, "nested")
			require.Equal(t, all.Of(m).Path(), h.Path())
			require.NoError(t, h.Release(t.Context()))
		}
		require.NotEqual(t, all.Of(x).Path(), all.Of(y).Path())
		require.NoError(t, all.Release(t.Context()))
	})
}

// A contender that would wait for a hold of the same context is refused at once: that hold ends after the wait.
func TestLock_OnePathThroughTwoClients_WouldWaitForItself(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		x, y := newMutex(t, a), newMutex(t, b)
		_, err := mutex.LockAll(briefly(t.Context(), t), x, y)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.ErrorContains(t, err, path)
		bubble.Clean(t, srv, path)

		h := lock(t, x)
		_, err = y.Lock(briefly(h.Context(), t))
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
