package shard_test

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	err := shard.Run(ctx, client, "/app/partitions", shard.List("p0"), func(ctx context.Context, s *shard.Shard) error {
		fmt.Println("consumes", s.Name)
		stop()       // as a signal would
		<-ctx.Done() // ctx is also done if the shard moves or its lock is lost
		fmt.Println("stops with", s.Name)
		return nil
	})
	fmt.Println(err)
	// Output:
	// consumes p0
	// stops with p0
	// context canceled
}

func ExampleShards_Leave() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	s, err := shard.New(client, "/app/partitions", shard.WithID("w1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	started, ended := make(chan string), make(chan error)
	go func() {
		ended <- s.Run(ctx, shard.List("p0", "p1"), func(ctx context.Context, s *shard.Shard) error {
			started <- s.Name
			<-ctx.Done()
			fmt.Println(s.Name, "stops:", context.Cause(ctx))
			return nil
		})
	}()
	<-started
	<-started
	view, err := s.Owners(ctx)
	for _, o := range view.Shards {
		fmt.Println(o.Shard, "of", o.Member, "held by", o.Holder.Name)
	}
	fmt.Println(err)
	fmt.Println(s.Leave(ctx)) // WithLeave does this when ctx is done
	fmt.Println(<-ended)
	// Output:
	// p0 of w1 held by w1
	// p1 of w1 held by w1
	// <nil>
	// p0 stops: the shard is moving to another member
	// p1 stops: the shard is moving to another member
	// <nil>
	// <nil>
}
