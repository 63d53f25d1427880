package mutex_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func ExampleMutex_Do() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	m, err := mutex.New(client, "/app/report")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = m.Do(ctx, func(ctx context.Context, _ *zkrecipes.Hold) error {
		fmt.Println("writing the report") // stop when ctx is done
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// writing the report
	// <nil>
}

// Every process starts the job at the same hour, but only one performs it, because later holders find that it is done.
// Only a process that still holds the lock can record that.
func ExampleMutex_Do_onceADay() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	m, err := mutex.New(client, "/app/report")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Create(ctx, "/last-report", nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		fmt.Println(err)
		return
	}
	for _, day := range []string{"monday", "monday", "tuesday"} { // each in another process
		err := m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
			last, stat, err := client.Get(ctx, "/last-report")
			if err != nil || string(last) == day {
				return err
			}
			fmt.Println("report of", day) // stop when ctx is done
			_, err = h.Txn(ctx, zkrecipes.OpSet("/last-report", []byte(day), stat.Version))
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// report of monday
	// report of tuesday
}

// A holder passes its token to the resource, which rejects any token older than the latest one it has seen.
func ExampleMutex_Lock() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	m, err := mutex.New(client, "/app/disk")
	if err != nil {
		fmt.Println(err)
		return
	}
	gate := fence.New(fence.NewMemory()) // runs where the disk is
	var stale zkrecipes.Token
	for range 2 {
		h, err := m.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("admitted:", gate.Admit(ctx, "disk", h.Token()) == nil)
		if stale == 0 {
			stale = h.Token()
		}
		if err := h.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("stale refused:", errors.Is(gate.Admit(ctx, "disk", stale), fence.ErrStale))
	// Output:
	// admitted: true
	// admitted: true
	// stale refused: true
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	m, err := mutex.New(client, "/app/report")
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := m.TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.TryLock(ctx)
	var busy *zkrecipes.BusyError
	if errors.As(err, &busy) {
		fmt.Println("held by", busy.Holder.Name)
	}
	fmt.Println(h.Release(ctx))
	// Output:
	// held by worker-1
	// <nil>
}
