package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

func ExampleTree() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	for _, path := range []string{"/config", "/config/db", "/config/db/host"} {
		if _, err := client.Create(ctx, path, []byte("of "+path), 0); err != nil {
			fmt.Println(err)
			return
		}
	}
	config, err := cache.Tree(client, "/config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = config.Close(ctx) }() // ctx is never canceled
	if err := config.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	host, ok := config.Get("/config/db/host") // from memory
	fmt.Printf("%s %v\n", host.Data, ok)
	if _, err := client.Set(ctx, "/config/db/host", []byte("db2"), -1); err != nil {
		fmt.Println(err)
		return
	}
	if err := config.Sync(ctx); err != nil { // blocks until the cache has this write
		fmt.Println(err)
		return
	}
	host, _ = config.Get("/config/db/host")
	fmt.Printf("%s, current: %v\n", host.Data, config.View().Current)
	// Output:
	// of /config/db/host true
	// db2, current: true
}

// The cache keeps the names of jobs, but neither their data nor their lock nodes.
func ExampleWithFilter() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	for _, path := range []string{"/jobs", "/jobs/mail", "/jobs/mail/lock", "/jobs/report"} {
		if _, err := client.Create(ctx, path, make([]byte, 100_000), 0); err != nil {
			fmt.Println(err)
			return
		}
	}
	jobs, err := cache.Tree(client, "/jobs", cache.WithoutData(), cache.WithFilter(func(path string) cache.Scope {
		if strings.HasSuffix(path, "/lock") {
			return cache.Nothing
		}
		return cache.Whole
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = jobs.Close(ctx) }() // ctx is never canceled
	if err := jobs.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	entries, view := jobs.Snapshot()
	for _, e := range entries {
		fmt.Println(e.Path)
	}
	fmt.Println(view.Bytes, "bytes")
	// Output:
	// /jobs
	// /jobs/mail
	// /jobs/report
	// 10 bytes
}

func ExampleCache_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	if _, err := client.Create(ctx, "/workers", nil, 0); err != nil {
		fmt.Println(err)
		return
	}
	workers, err := cache.Children(client, "/workers")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = workers.Close(ctx) }() // ctx is never canceled
	for change, err := range workers.Watch(ctx) {
		if err != nil { // always the final value
			fmt.Println(err)
			return
		}
		fmt.Printf("%v %q\n", change.Kind, change.Entry.Path)
		switch {
		case change.Kind == cache.Current:
			_, err = client.Create(ctx, "/workers/a", nil, 0)
		case change.Kind == cache.Created && change.Entry.Name() == "a":
			err = client.Delete(ctx, "/workers/a", -1)
		case change.Kind == cache.Deleted:
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// created "/workers"
	// current ""
	// created "/workers/a"
	// deleted "/workers/a"
}

func ExampleAs() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	for path, text := range map[string]string{"/limit": "42", "/timeout": "soon"} {
		if _, err := client.Create(ctx, path, []byte(text), 0); err != nil {
			fmt.Println(err)
			return
		}
	}
	all, err := cache.Children(client, "/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = all.Close(ctx) }() // ctx is never canceled
	if err := all.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	numbers, err := cache.As(all, func(e cache.Entry) (int, error) { return strconv.Atoi(string(e.Data)) })
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, _ := numbers.Get("/limit")
	fmt.Println(limit.Value, limit.Err)
	timeout, _ := numbers.Get("/timeout")
	fmt.Println(timeout.Err)
	// Output:
	// 42 <nil>
	// decode /timeout: strconv.Atoi: parsing "soon": invalid syntax
}
