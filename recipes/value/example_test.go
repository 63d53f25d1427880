package value_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

func ExampleValue_Update() {
	type config struct{ Limit int }
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	v, err := value.New(client, "/app/config", value.JSON[config]())
	if err != nil {
		fmt.Println(err)
		return
	}
	now, _, err := v.Update(ctx, func(c config) (config, error) {
		c.Limit += 10
		return c, nil
	})
	fmt.Println(now.Limit, err)
	// Output: 10 <nil>
}

// A transfer between two accounts, without a lock.
func ExampleUpdateAll() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	account := func(name string) *value.Value[int64] {
		v, err := value.New(client, "/bank/"+name, value.AtomicLong())
		if err != nil {
			panic(err)
		}
		return v
	}
	from, to := account("zoe"), account("adam")
	if _, err := from.Set(ctx, 100); err != nil {
		fmt.Println(err)
		return
	}
	var left, sum int64
	err := value.UpdateAll(ctx, client, func(tx *value.Tx) error {
		a, err := from.Read(tx)
		if err != nil {
			return err
		}
		b, err := to.Read(tx)
		if err != nil {
			return err
		}
		if a < 30 {
			return errors.New("too little money")
		}
		left, sum = a-30, b+30
		return errors.Join(from.Write(tx, left), to.Write(tx, sum))
	})
	fmt.Println(left, sum, err)
	// Output: 70 30 <nil>
}

func ExampleValue_CompareAndSet() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	v, err := value.New(client, "/app/color", value.Text())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, seen, err := v.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = v.CompareAndSet(ctx, seen, "blue")
	fmt.Println(err)
	_, err = v.CompareAndSet(ctx, seen, "green") // the value has changed since it was read
	fmt.Println(err)
	// Output:
	// <nil>
	// compare and set /app/color: changed since it was read, nothing was written
}

// Only the holder of the lock writes the value.
func ExampleValue_SetHeld() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	v, err := value.New(client, "/app/progress", value.Text())
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := mutex.New(client, "/app/lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = v.SetHeld(ctx, hold, "page 7")
	fmt.Println(err)
	fmt.Println(hold.Release(ctx))
	_, err = v.SetHeld(ctx, hold, "page 8")
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// fenced: no longer held, nothing was written: released
}

func ExampleCounter_Add() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	c, err := value.NewCounter(client, "/app/orders", value.AtomicLong())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Add(ctx, 5))
	fmt.Println(c.Add(ctx, -2))
	// Output:
	// 5 <nil>
	// 3 <nil>
}

// A block of numbers costs as much as a single one.
func ExampleCounter_Next() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	c, err := value.NewCounter(client, "/app/invoices", value.AtomicLong())
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		first, err := c.Next(ctx, 100)
		fmt.Println(first, "to", first+99, err)
	}
	// Output:
	// 1 to 100 <nil>
	// 101 to 200 <nil>
}

func ExampleValue_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	v, err := value.New(client, "/app/color", value.Text())
	if err != nil {
		fmt.Println(err)
		return
	}
	for view, err := range v.Watch(ctx) {
		switch {
		case err != nil: // always the final value
			fmt.Println(err)
			return
		case !view.Current: // the value may have changed since view.AsOf; a current view follows
			continue
		case view.Version.Exists():
			fmt.Printf("%q\n", view.Value)
			return
		}
		fmt.Printf("none, so %q\n", view.Value)
		if _, err := v.Set(ctx, "blue"); err != nil { // as another process would
			fmt.Println(err)
			return
		}
	}
	// Output:
	// none, so ""
	// "blue"
}

// A list of a thousand hosts takes a fraction of its size, and Curator's decompressed() can read it too.
func ExampleGzip() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	hosts, err := value.New(client, "/app/hosts", value.Gzip(value.JSON[[]string]()))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := hosts.Set(ctx, slices.Repeat([]string{"host.example.com"}, 1000)); err != nil {
		fmt.Println(err)
		return
	}
	list, _, err := hosts.Get(ctx)
	fmt.Println(len(list), err)
	_, stat, err := client.Get(ctx, "/app/hosts")
	fmt.Println(stat.DataLength < 1000, err)
	// Output:
	// 1000 <nil>
	// true <nil>
}
