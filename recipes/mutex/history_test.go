package mutex_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// section is one acquisition of the lock, recorded for the checkers; it stops when its hold does.
func section(
	ctx context.Context, rec *check.Recorder, set *check.Set, m *mutex.Mutex, who string, d time.Duration,
) error {
	op := rec.Call(who, 1)
	h, err := m.Lock(ctx)
	if err != nil {
		op.Failed()
		return err
	}
	op.GrantedHold(h)
	base, err := set.Read(h.Token())
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
		if h.Err() == nil {
			err = set.Add(who, h.Token(), base, fmt.Sprint(who, h.Token()))
		}
		op.Released()
		_ = h.Release(ctx)
		return err
	case <-h.Done():
		op.Lost()
		return nil
	}
}

func requireSound(t testing.TB, rec *check.Recorder, set *check.Set) []check.Hold {
	t.Helper()
	holds, err := rec.Holds()
	require.NoError(t, err)
	require.NoError(t, check.Exclusion(holds, 1))
	require.NoError(t, check.Order(holds, 1))
	require.Empty(t, check.LostUpdates(set.Updates()))
	return holds
}

func TestLock_HundredGoroutinesShareOneMutex_ExcludeEachOther(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, _ *conn.Client) {
		m := newMutex(t, a)
		var rec check.Recorder
		var set check.Set
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				for range 3 {
					assert.NoError(t, section(t.Context(), &rec, &set, m, fmt.Sprint(i), time.Second))
				}
			})
		}
		began := time.Now()
		wg.Wait()
		require.Equal(t, 300*time.Second, time.Since(began), "nothing is lost between two of them")
		require.Len(t, requireSound(t, &rec, &set), 300)
		bubble.Clean(t, srv, path)
	})
}

// Each of them queues, watches and leaves. In the end only the watch that they share with the holder is left.
func TestLock_HundredThousandCancelled_LeaveOneWatchNoNodeAndNoGoroutine(t *testing.T) {
	total := 100_000
	if testing.Short() || bubble.Race {
		total = 5_000
	}
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		held := lock(t, newMutex(t, a))
		m := newMutex(t, b)
		synctest.Wait()
		before := bubble.Goroutines()
		watches, _ := srv.Watches()
		const together = 100
		for range total / together {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range together {
				wg.Go(func() {
					_, err := m.Lock(ctx)
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
			synctest.Wait()
			cancel()
			wg.Wait()
		}
		synctest.Wait()
		require.Equal(t, []string{held.Path()[len(path)+1:]}, srv.Children(path))
		now, _ := srv.Watches()
		require.Equal(t, watches+1, now)
		require.Contains(t, srv.Watchers(held.Path()), srv.SessionOf("b"))
		require.InDelta(t, before, bubble.Goroutines(), 2)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, lock(t, m).Release(t.Context()))
	})
}
