package rwlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
)

func Example() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	l, err := rwlock.New(client, "/locks/config")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = l.RDo(ctx, func(ctx context.Context, _ *zkrecipes.Hold) error {
		fmt.Println("reading, with others")
		_, err := l.Lock(ctx)
		fmt.Println("write inside read:", errors.Is(err, zkrecipes.ErrUpgrade))
		return nil
	})
	fmt.Println(err)
	// Output:
	// reading, with others
	// write inside read: true
	// <nil>
}

// This is a downgrade: the holder continues to read what it wrote, and no other writer acquires the lock in between.
func ExampleRWLock_RLock() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	l, err := rwlock.New(client, "/locks/config")
	if err != nil {
		fmt.Println(err)
		return
	}
	writer, err := l.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written")
	reader, err := l.RLock(writer.Context())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("writer:", writer.Release(ctx))
	_, err = l.TryLock(ctx)
	fmt.Println("next writer kept out:", errors.Is(err, zkrecipes.ErrLocked))
	fmt.Println("reader:", reader.Release(ctx))
	// Output:
	// written
	// writer: <nil>
	// next writer kept out: true
	// reader: <nil>
}
