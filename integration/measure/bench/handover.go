package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// handOver measures a hand-over: the time from the call of Release to the next grant, while about n clients wait.
// Meanwhile the queue shrinks from 5/4 n to 3/4 n. With one session, all waiters share it. With two sessions, the next
// waiter always belongs to the other one. The rate is the rate of the median hand-over.
func (f *field) handOver(n, sessions int) contestant {
	path := fmt.Sprintf("/bench/ours/queue-of-%d-in-%d", n, sessions)
	return contestant{fmt.Sprintf("%d waiters", n), nil, func(ctx context.Context, _ time.Duration) (float64, error) {
		var times []float64
		for len(times) < 200 {
			more, err := f.drain(ctx, path, n, sessions)
			if err != nil {
				return 0, err
			}
			times = append(times, more...)
		}
		return 1 / median(times), nil
	}}
}

// drain builds one queue, and returns the duration of each hand-over in seconds.
func (f *field) drain(ctx context.Context, path string, n, sessions int) ([]float64, error) {
	mutexes := make([]*mutex.Mutex, sessions)
	for i := range mutexes {
		mutexes[i] = must(mutex.New(f.ours[i], path))
	}
	holder, err := mutexes[0].Lock(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	holds := make(chan *zkrecipes.Hold)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	measured := n / 2
	total := n + measured/2
	for i := range total {
		waiters.Go(func() {
			h, err := mutexes[i%sessions].Lock(ctx)
			if err != nil {
				return // cancelled at the end
			}
			select {
			case holds <- h:
			case <-ctx.Done():
				_ = h.Release(context.WithoutCancel(ctx))
			}
		})
		if sessions > 1 || i == total-1 { // with two sessions, so that they alternate in the queue
			if err := f.awaitChildren(path, i+2); err != nil {
				return nil, err
			}
		}
	}
	time.Sleep(100 * time.Millisecond) // lets them set their watches
	var times []float64
	for range measured {
		start := time.Now()
		released := make(chan error, 1)
		go func() { released <- holder.Release(ctx) }()
		next := <-holds
		times = append(times, time.Since(start).Seconds())
		if err := <-released; err != nil {
			return nil, err
		}
		holder = next
	}
	cancel()
	return times, holder.Release(context.WithoutCancel(ctx))
}

// awaitChildren returns once there are n children.
func (f *field) awaitChildren(path string, n int) error {
	for {
		_, stat, err := f.raw[0].Exists(path)
		if err != nil || int(stat.NumChildren) >= n {
			return err
		}
	}
}
