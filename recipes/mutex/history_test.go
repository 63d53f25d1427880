package mutex_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
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

// Connections are cut, and there are partitions, restarts and freezes at random: a holder has always stopped before the
// next is granted. This does not hold if an operator kills the session, because its holder learns of that when the
// waiters do.
func TestLock_UnderFaults_ExcludesInOrderAndLeavesNothing(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() || bubble.Race {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { underFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func underFaults(t *testing.T, random *rand.Rand) {
	srv := zktest.Run(t, zktest.InMemory())
	labels := []string{"a", "b", "c"}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
	defer stop()
	var rec check.Recorder
	var set check.Set
	var wg sync.WaitGroup
	for _, label := range labels {
		m := newMutex(t, bubble.Dial(t, srv, label))
		for i := range 3 {
			who := fmt.Sprint(label, i)
			mine := rand.New(rand.NewPCG(random.Uint64(), 2))
			wg.Go(func() {
				for ctx.Err() == nil {
					waiting, cancel := context.WithTimeout(ctx, time.Duration(mine.IntN(60_000)+100)*time.Millisecond)
					_ = section(waiting, &rec, &set, m, who, time.Duration(mine.IntN(20_000))*time.Millisecond)
					cancel()
				}
			})
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
			pause := time.Duration(random.IntN(25_000)) * time.Millisecond
			who := zktest.Label(labels[random.IntN(len(labels))])
			switch random.IntN(6) {
			case 0:
				srv.Cut(who)
			case 1:
				srv.Stall(who, zktest.Direction(random.IntN(3)))
				time.Sleep(pause)
				srv.Heal(zktest.Everyone)
			case 2:
				srv.Restart()
			case 3:
				srv.Down()
				time.Sleep(pause)
				srv.Up()
			case 4:
				srv.Freeze()
				time.Sleep(pause)
				srv.Thaw()
			case 5:
				fault := []zktest.Action{zktest.DropReply(), zktest.DropRequest()}[random.IntN(2)]
				op := []zktest.Op{zktest.OpCreate, zktest.OpDelete, zktest.OpGetChildren2, zktest.OpGetData}[random.IntN(4)]
				srv.Intercept(zktest.Match{Op: op}, fault)
			}
		}
	})
	wg.Wait()
	holds := requireSound(t, &rec, &set)
	lost := 0
	for _, h := range holds {
		if h.Lost {
			lost++
		}
	}
	t.Logf("%d holds, %d lost, %d updates", len(holds), lost, len(set.Updates()))
	require.Greater(t, len(holds), 50)
	time.Sleep(time.Minute)
	bubble.Clean(t, srv, path)
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

func TestLock_ManyWaiters_AreServedInOrder(t *testing.T) {
	pair(t, func(t *testing.T, srv *zktest.Server, a, b *conn.Client) {
		const waiters = 1000
		held := lock(t, newMutex(t, a))
		m := newMutex(t, b)
		var mu sync.Mutex
		var tokens []zkrecipes.Token
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				h, err := m.Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				tokens = append(tokens, h.Token())
				mu.Unlock()
				assert.NoError(t, h.Release(t.Context()))
			})
		}
		synctest.Wait()
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		require.IsIncreasing(t, tokens)
		require.Len(t, tokens, waiters)
		bubble.Clean(t, srv, path)
	})
}
