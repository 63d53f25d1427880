package mutex_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
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

// BenchmarkHandOver measures one release and the grant that follows, while several others wait. A caller that has had
// the lock goes to the end of the queue.
func BenchmarkHandOver(b *testing.B) {
	for _, sessions := range []int{1, 2} {
		for _, waiters := range []int{10, 1000} {
			b.Run(fmt.Sprintf("sessions=%d/waiters=%d/server=zktest", sessions, waiters), func(b *testing.B) {
				handOver(b, benchMutexes(b, sessions, func(int) string { return "/lock" }), waiters)
			})
		}
	}
}

func handOver(b *testing.B, mutexes []*mutex.Mutex, waiters int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	holds := make(chan *zkrecipes.Hold)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range waiters + 1 {
		m := mutexes[i%len(mutexes)]
		wg.Go(func() {
			for {
				h, err := m.Lock(ctx)
				if err != nil {
					return // the end
				}
				select {
				case holds <- h:
				case <-ctx.Done():
					_ = h.Release(b.Context()) // the end
					return
				}
			}
		})
	}
	holder := <-holds
	for {
		queue, err := mutexes[0].Queue(ctx)
		require.NoError(b, err)
		if len(queue) > waiters {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, holder.Release(ctx))
		holder = <-holds
	}
	require.NoError(b, holder.Release(ctx))
}

// tracer returns a tracer that has all hooks, which do nothing.
func tracer() *zkrecipes.Tracer {
	return &zkrecipes.Tracer{
		AcquireStart: func(ctx context.Context, _ zkrecipes.AcquireStart) context.Context { return ctx },
		AcquireEnd:   func(context.Context, zkrecipes.AcquireEnd) {},
		HoldStart:    func(ctx context.Context, _ zkrecipes.HoldStart) context.Context { return ctx },
		HoldEnd:      func(context.Context, zkrecipes.HoldEnd) {},
		State:        func(zkrecipes.StateChange) {},
		Connect:      func(zkrecipes.Connect) {},
		Request:      func(context.Context, zkrecipes.Request) {},
	}
}

// BenchmarkLockTraced shows what the hooks of a tracer cost. BenchmarkLock has none.
func BenchmarkLockTraced(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d/server=zktest", clients), func(b *testing.B) {
			path := func(i int) string { return fmt.Sprintf("/lock-of-%d", i) }
			spread(b, benchMutexes(b, clients, path, conn.WithTracer(tracer())))
		})
	}
}
