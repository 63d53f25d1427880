package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

func ExampleSemaphore_Acquire() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	s, err := semaphore.New(client, "/app/uploads", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := s.Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.TryAcquire(ctx, 2)
	fmt.Println("two more:", errors.Is(err, zkrecipes.ErrLocked))
	fmt.Println(h.Release(ctx))
	// Output:
	// two more: true
	// <nil>
}

func ExampleSemaphore_SetLimit() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	s, err := semaphore.New(client, "/app/uploads", 1, semaphore.WithLimitNode("/app/uploads-limit"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.SetLimit(ctx, 5); err != nil { // takes effect immediately for all that follow the node
		fmt.Println(err)
		return
	}
	err = s.Do(ctx, 4, func(ctx context.Context, _ *zkrecipes.Hold) error {
		holders, err := s.Holders(ctx)
		fmt.Println(len(holders), "leases are out")
		return err
	})
	fmt.Println(err)
	// Output:
	// 4 leases are out
	// <nil>
}
