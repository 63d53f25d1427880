package election_test

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/recipes/election"
)

func ExampleElection_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	e, err := election.New(client, "/app/leader")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
		leader, err := e.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(leader.ID, "leads")
		stop() // as a signal does
		<-ctx.Done()
		fmt.Println("stops leading")
		return nil
	})
	fmt.Println(err)
	// Output:
	// worker-1 leads
	// stops leading
	// context canceled
}
