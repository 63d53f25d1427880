package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// handOver measures how fast a lock goes from one to the next while about n wait: n/2 hand-overs at the head of a line
// that is n long in the middle. With one session all are in it; with two the next is always in the other.
func (f *field) handOver(n, sessions int) contestant {
	path := fmt.Sprintf("/bench/ours/queue-of-%d-in-%d", n, sessions)
	return contestant{fmt.Sprintf("%d waiters", n), os.Getpid(), func(ctx context.Context, _ time.Duration) (float64, error) {
		count, took := 0, time.Duration(0)
		for count < 250 {
			t, err := f.drain(ctx, path, n, sessions)
			if err != nil {
				return 0, err
			}
			count, took = count+n/2, took+t
		}
		return float64(count) / took.Seconds(), nil
	}}
}

func (f *field) drain(ctx context.Context, path string, n, sessions int) (time.Duration, error) {
	mutexes := make([]*mutex.Mutex, sessions)
	for i := range mutexes {
		mutexes[i] = must(mutex.New(f.ours[i], path))
	}
	holder, err := mutexes[0].Lock(ctx)
	if err != nil {
		return 0, err
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
		if sessions > 1 || i == total-1 { // with two, so that they take turns in the line
			if err := f.awaitChildren(path, i+2); err != nil {
				return 0, err
			}
		}
	}
	time.Sleep(100 * time.Millisecond) // let them set their watches
	start := time.Now()
	for range measured {
		if err := holder.Release(ctx); err != nil {
			return 0, err
		}
		holder = <-holds
	}
	took := time.Since(start)
	cancel()
	return took, holder.Release(context.WithoutCancel(ctx))
}

// awaitChildren returns once there are n.
func (f *field) awaitChildren(path string, n int) error {
	for {
		_, stat, err := f.raw[0].Exists(path)
		if err != nil || int(stat.NumChildren) >= n {
			return err
		}
	}
}
