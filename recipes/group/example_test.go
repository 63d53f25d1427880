package group_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/recipes/group"
)

func Example() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	g, err := group.New(client, "/app/workers")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"w2", "w1"} {
		m, err := g.Join(ctx, id, []byte("address of "+id))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = m.Close(ctx) }() // otherwise its node remains until the session ends
	}
	view, err := g.Members(ctx)
	for _, m := range view.Members { // oldest first
		fmt.Println(m.ID, string(m.Data))
	}
	fmt.Println(err)
	// Output:
	// w2 address of w2
	// w1 address of w1
	// <nil>
}

func ExampleGroup_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	g, err := group.New(client, "/app/workers")
	if err != nil {
		fmt.Println(err)
		return
	}
	var m *group.Membership
	for view, err := range g.Watch(ctx, group.WithPayloads(), group.WithSettle(10*time.Millisecond, time.Second)) {
		switch {
		case err != nil: // always the final value
			fmt.Println(err)
			return
		case !view.Current: // the members may have changed since view.AsOf; a current view follows
			continue
		case m == nil:
			fmt.Println("members:", len(view.Members))
			m, err = g.Join(ctx, "w1", []byte("10.0.0.7:8080"))
		case len(view.Members) == 1:
			fmt.Println(view.Members[0].ID, string(view.Members[0].Data))
			err = m.Close(ctx)
		default:
			fmt.Println("members:", len(view.Members))
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// members: 0
	// w1 10.0.0.7:8080
	// members: 0
}
