package mutex_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The benchmarks run against zktest over the loopback interface. They show how a change affects the library; the
// command integration/measure/bench compares it with others on a real server.

func benchMutexes(b *testing.B, n int, path func(i int) string, opts ...conn.Option) []*mutex.Mutex {
	b.Helper()
	srv := zktest.Run(b)
	mutexes := make([]*mutex.Mutex, n)
	for i := range mutexes {
		c, err := conn.Dial(b.Context(), srv.Addr(), append(opts, bubble.Silent)...)
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() }) // never fails
		mutexes[i], err = mutex.New(c, path(i))
		require.NoError(b, err)
	}
	return mutexes
}

// spread runs b.N sections over the mutexes, each from one goroutine.
func spread(b *testing.B, mutexes []*mutex.Mutex) {
	b.Helper()
	b.ReportAllocs()
	var wg sync.WaitGroup
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	b.ResetTimer()
	for _, m := range mutexes {
		wg.Go(func() {
			for range turns {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute) // as callers do
				h, err := m.Lock(ctx)
				if err == nil {
					err = h.Release(ctx)
				}
				cancel()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkLock(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d/server=zktest", clients), func(b *testing.B) {
			spread(b, benchMutexes(b, clients, func(i int) string { return fmt.Sprintf("/lock-of-%d", i) }))
		})
	}
}

func BenchmarkLockContended(b *testing.B) {
	for _, clients := range []int{2, 8} {
		b.Run(fmt.Sprintf("clients=%d/server=zktest", clients), func(b *testing.B) {
			spread(b, benchMutexes(b, clients, func(int) string { return "/lock" }))
		})
	}
}
