package multilock_test

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
)

// This example moves money between two accounts while the rates must not change. The balance is written only if all
// locks are still held.
func ExampleLockAll() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	account := func(name string) zkrecipes.Part {
		m, err := mutex.New(client, "/locks/"+name)
		if err != nil {
			panic(err)
		}
		return m.Part()
	}
	rates, err := rwlock.New(client, "/locks/rates")
	if err != nil {
		panic(err)
	}
	if _, err := client.Create(ctx, "/balance", nil, 0); err != nil {
		panic(err)
	}
	all, err := multilock.LockAll(ctx, account("zoe"), account("adam"), rates.RPart())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = all.Txn(ctx, zkrecipes.OpSet("/balance", []byte("100"), -1))
	fmt.Println("held:", all.Err() == nil, "written:", err == nil)
	fmt.Println(all.Release(ctx))
	// Output:
	// held: true written: true
	// <nil>
}
