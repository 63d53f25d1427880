package scale

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// waiters: what each of n waiters costs if they arrive one by one. The stacks of the callers are not on the heap.
func waiters(ctx context.Context, server *zkserver.Server) error {
	for _, n := range []int{500, 1000, 2000} {
		if err := waitersOf(ctx, server, n); err != nil {
			return err
		}
	}
	return nil
}

func waitersOf(ctx context.Context, server *zkserver.Server, n int) error {
	var t tap
	c, err := dial(ctx, server, &t)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it never fails
	path := fmt.Sprintf("/waiters-%d", n)
	m, err := mutex.New(c, path)
	if err != nil {
		return err
	}
	if _, err := m.Lock(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	before, bytes := bubble.Heap(), t.bytes.Load()
	for i := range n {
		all.Go(func() { _, _ = m.Lock(ctx) }) // cancelled at the end
		if err := awaitChildren(ctx, c, path, i+2); err != nil {
			return err
		}
	}
	time.Sleep(time.Second) // lets the last one read its list and its predecessor
	tell("waiters", "%6d one by one: %7.1f KB of heap each, %7.1f KB read each",
		n, float64(bubble.Heap()-before)/float64(n)/1000,
		float64(t.bytes.Load()-bytes)/float64(n)/1000)
	return nil
}

// freeze: the server hangs, so the holds of a client end at their deadline. How late is the last one notified?
func freeze(ctx context.Context, server *zkserver.Server) error {
	var t tap
	c, err := dial(ctx, server, &t)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it never fails
	n := 20_000
	holds, err := take(ctx, c, "/freeze", n)
	if err != nil {
		return err
	}
	if err := server.Pause(); err != nil {
		return err
	}
	defer func() { _ = server.Resume() }() // or it is killed
	var deadline time.Time
	for range 2 { // an answer may have been in flight
		deadline = holds[0].ValidUntil()
		time.Sleep(time.Second)
	}
	<-holds[0].Done()
	for _, h := range holds {
		<-h.Done()
	}
	tell("freeze", "%6d holds: the last Done is %v after the deadline", n, time.Since(deadline).Round(time.Millisecond))
	return nil
}

// idle: what the holds and the waiters of one client request while nothing happens.
func idle(ctx context.Context, server *zkserver.Server) error {
	var t tap
	c, err := dial(ctx, server, &t)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it never fails
	n := 10_000
	if _, err := take(ctx, c, "/idle", n); err != nil {
		return err
	}
	rest(&t, n, "holds")

	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range n {
		m, err := mutex.New(c, "/idle/0")
		if err != nil {
			return err
		}
		all.Go(func() { _, _ = m.Lock(ctx) }) // cancelled at the end
	}
	if err := awaitChildren(ctx, c, "/idle/0", n); err != nil { // on a busy machine the hold may be lost meanwhile
		return err
	}
	rest(&t, n, "holds and as many waiters")
	return nil
}

// rest counts the requests of six session timeouts, in which each node is read two or three times.
func rest(t *tap, n int, what string) {
	time.Sleep(3 * timeout) // until they have settled
	asked, upkeep, began := t.asked.Load(), t.upkeep(), time.Now()
	time.Sleep(6 * timeout)
	took := time.Since(began).Seconds()
	tell("idle", "%6d %s: %.1f requests a second, and %.1f pings and syncs", n, what, float64(t.asked.Load()-asked)/took,
		float64(t.upkeep()-upkeep)/took)
}

// firstLock: the requests of the first lock on a path, with its release, with and without an existing parent.
func firstLock(ctx context.Context, server *zkserver.Server) error {
	var t tap
	c, err := dial(ctx, server, &t)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it never fails
	const n = 100
	for _, p := range []struct{ name, format string }{
		{"the parent is missing", "/first/%d/lock"}, {"the parent is there", "/first/lock-%d"},
	} {
		asked := t.asked.Load()
		for i := range n {
			h, err := lock(ctx, c, fmt.Sprintf(p.format, i))
			if err != nil {
				return err
			}
			if err := h.Release(ctx); err != nil {
				return err
			}
		}
		tell("first", "lock on a new path, %s: %.1f requests with the release", p.name, float64(t.asked.Load()-asked)/n)
	}
	return nil
}
