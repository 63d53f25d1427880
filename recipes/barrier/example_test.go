package barrier_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes/recipes/barrier"
)

func ExampleBarrier_Wait() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	b, err := barrier.New(client, "/app/maintenance")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("raised:", b.Set(ctx))
	var worker sync.WaitGroup
	worker.Go(func() { fmt.Println("worker goes on:", b.Wait(ctx)) }) // as another process does
	fmt.Println("lowered:", b.Remove(ctx))
	worker.Wait()
	// Unordered output:
	// raised: <nil>
	// lowered: <nil>
	// worker goes on: <nil>
}

func ExampleDouble_Enter() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	d, err := barrier.NewDouble(client, "/app/step", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	var members sync.WaitGroup
	for range 3 { // as three processes do
		members.Go(func() {
			round, err := d.Enter(ctx)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("together")
			if err := round.Leave(ctx); err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("all have left")
		})
	}
	members.Wait()
	// Output:
	// together
	// together
	// together
	// all have left
	// all have left
	// all have left
}
