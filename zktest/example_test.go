package zktest_test

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A program starts a server, connects a client to it, and expires its session.
func ExampleStart() {
	srv, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	c, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second,
		zk.WithDialer(srv.DialTimeoutAs("worker")), zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if _, err := c.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		panic(err)
	}
	fmt.Println(srv.Children("/"), len(srv.Sessions()))
	srv.Refuse(zktest.Label("worker")) // or it would reconnect immediately
	srv.Expire(srv.SessionOf("worker"))
	fmt.Println(srv.Children("/"), len(srv.Sessions()))
	// Output:
	// [worker zookeeper] 1
	// [zookeeper] 0
}

// A create is applied, but its reply is lost, so the client cannot know that it was applied.
func ExampleServer_Intercept() {
	srv, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	c, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithDialer(srv.DialTimeoutAs("worker")),
		zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	srv.Intercept(zktest.Match{
		From: zktest.Label("worker"),
		Op:   zktest.OpCreate,
		Path: "^/job",
	}, zktest.DropReply())
	_, err = c.Create("/job", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	fmt.Println(srv.Exists("/job"))
	// Output:
	// zk: connection closed
	// true
}

// At first two of four servers form the ensemble, and then the other two do. A server that has left keeps serving until
// it is stopped.
func ExampleServer_Reconfigure() {
	srv, err := zktest.Start(zktest.WithFronts(4), zktest.WithReconfig())
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	before, after := srv.Fronts()[:2], srv.Fronts()[2:]
	if err := srv.Reconfigure(before...); err != nil {
		panic(err)
	}
	c, _, err := zk.Connect([]string{before[0].Addr(), after[1].Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if _, err := c.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		panic(err)
	}
	if err := srv.Reconfigure(after...); err != nil {
		panic(err)
	}
	before[0].Stop()
	before[1].Stop()
	_, err = c.Sync("/worker") // fails once, because the connection was lost
	for err != nil {
		_, err = c.Sync("/worker")
	}
	fmt.Println(c.Server() == after[1].Addr(), srv.Exists("/worker"))
	fmt.Println(before[0].Start() != nil)
	// Output:
	// true true
	// true
}
