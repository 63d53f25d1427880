package bench

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// TestWaiters_MemoryAndGoroutines measures the cost of ten thousand waiters in one process: heap, and goroutines in
// addition to those of the callers. The stacks of the callers are not on the heap.
func TestWaiters_MemoryAndGoroutines(t *testing.T) {
	server := zkserver.Start(t, zkserver.WithTickTime(2*time.Second), zkserver.WithJVM("-Xmx512m"))
	client, err := conn.Dial(t.Context(), server.Addr(), conn.WithSessionTimeout(40*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	m, err := mutex.New(client, "/lock")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	const waiters = 10_000
	before, goroutines := bubble.Heap(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		names, err := client.Children(t.Context(), "/lock")
		return err == nil && len(names) > waiters
	}, 3*time.Minute, 10*time.Millisecond)
	var perWaiter, beside float64
	settled := func() bool { // only once the last waiter has read its list, which is on the heap until then
		beside = float64(runtime.NumGoroutine()-goroutines-waiters) / waiters
		perWaiter = float64(bubble.Heap()-before) / waiters
		return beside <= 0.01 && perWaiter < 4096
	}
	for deadline := time.Now().Add(3 * time.Minute); !settled() && time.Now().Before(deadline); {
		t.Logf("a waiter takes %.0f bytes of heap and %.2f goroutines for now", perWaiter, beside)
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("a waiter takes %.0f bytes of heap and %.2f goroutines beside the caller's own", perWaiter, beside)
	require.Less(t, perWaiter, 4096.0)
	require.LessOrEqual(t, beside, 0.01)
	require.NoError(t, h.Release(t.Context()))
	all.Wait()
}
