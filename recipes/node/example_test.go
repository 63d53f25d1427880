package node_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/recipes/node"
)

func Example() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	n, err := node.New(client, "/app/workers/w1", []byte("10.0.0.7:8080"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := n.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	data, stat, err := client.Get(ctx, n.Path())
	fmt.Println(string(data), stat.Czxid == n.State().Czxid, err)
	fmt.Println(n.Set(ctx, []byte("10.0.0.7:8081")))
	fmt.Println(n.Close(ctx))
	exists, _, err := client.Exists(ctx, n.Path())
	fmt.Println(exists, err)
	// Output:
	// 10.0.0.7:8080 true <nil>
	// <nil>
	// <nil>
	// false <nil>
}

func ExampleNode_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	n, err := node.New(client, "/app/workers/w1", []byte("10.0.0.7:8080"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for s, err := range n.Watch(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
		case s.Exists && s.Current:
			fmt.Println("there")
			return
		case s.Exists:
			slog.Warn("disconnected", "seen", s.AsOf)
		default:
			slog.Info("not there", "reason", s.Err)
		}
	}
	// Output:
	// there
}

// A restarted process replaces its predecessor's node before the predecessor's session expires.
func ExampleWithReplace() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	_, err := client.Create(ctx, "/w1", []byte("host-7 run 1"), zk.FlagEphemeral) // created by the predecessor
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := node.New(client, "/w1", []byte("host-7 run 2"), node.WithReplace(func(data []byte, _ zk.Stat) bool {
		return bytes.HasPrefix(data, []byte("host-7 "))
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Ready(ctx))
	// Output: <nil>
}
