package discovery_test

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

func Example() {
	ctx := context.Background()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	d, err := discovery.New(client, "/services")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, port := range []int{8080, 8081} {
		r, err := d.Register(ctx, discovery.Instance{
			Service: "orders", Address: "10.0.0.7", Port: port, Metadata: map[string]string{"zone": "a"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = r.Close(ctx) }() // otherwise its node remains until the session ends
	}
	names, err := d.Names(ctx)
	fmt.Println(names, err)
	view, err := d.Instances(ctx, "orders")
	for _, i := range view.Instances() { // oldest first
		fmt.Println(i.HostPort(), i.Metadata["zone"])
	}
	fmt.Println(err)
	// Output:
	// [orders] <nil>
	// 10.0.0.7:8080 a
	// 10.0.0.7:8081 a
	// <nil>
}

func ExampleDiscovery_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	d, err := discovery.New(client, "/services", discovery.WithCodec(discovery.Spring()))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := d.Register(ctx, discovery.Instance{Service: "orders", Address: "10.0.0.7", Port: 8080})
	if err != nil {
		fmt.Println(err)
		return
	}
	for view, err := range d.Watch(ctx, "orders") {
		switch {
		case err != nil: // always the final value
			fmt.Println(err)
			return
		case !view.Current: // the instances may have changed since view.AsOf, but most of them are probably still there
			continue
		case len(view.Entries) == 0:
			fmt.Println("none")
			return
		case view.Entries[0].Disabled:
			fmt.Println(view.Entries[0].Metadata)
			err = r.Close(ctx)
		default:
			fmt.Println(view.Entries[0].URL())
			out := r.Instance()
			out.Disabled = true
			err = r.Update(ctx, out)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// http://10.0.0.7:8080
	// map[instance_status:OUT_OF_SERVICE]
	// none
}
