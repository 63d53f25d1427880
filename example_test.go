package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// This write is applied only while the lock is held, no matter how late it reaches the servers.
func ExampleHold_Txn() {
	ctx := context.Background()
	client, done := bubble.Connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	m, err := mutex.New(client, "/app/lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Create(ctx, "/config", []byte("old"), 0); err != nil {
		fmt.Println(err)
		return
	}
	h, err := m.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	write := zkrecipes.OpSet("/config", []byte("new"), -1)
	_, err = h.Txn(ctx, write)
	fmt.Println("held:", err)

	_ = h.Release(ctx) // or the hold is lost
	_, err = h.Txn(ctx, write)
	fmt.Println("released, nothing written:", errors.Is(err, zkrecipes.ErrFenced))
	// Output:
	// held: <nil>
	// released, nothing written: true
}
