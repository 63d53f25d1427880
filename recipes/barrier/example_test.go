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
	worker.Go(func() { fmt.Println("worker goes on:", b.Wait(ctx)) }) // as another process would
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
	for range 3 { // as three processes would
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

// Each of three parts is loaded by one process, which may be restarted. Others wait until all parts are loaded.
func ExampleLatch_CountDown() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	loaded, err := barrier.NewLatch(client, "/app/loaded", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range []string{"part-1", "part-2", "part-2", "part-3"} { // one of them twice, after a restart
		left, err := loaded.CountDown(ctx, part)
		fmt.Println(part, left, err)
	}
	fmt.Println(loaded.Wait(ctx))
	// Output:
	// part-1 2 <nil>
	// part-2 1 <nil>
	// part-2 1 <nil>
	// part-3 0 <nil>
	// <nil>
}
