package zktest_test

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A program starts a server, points a client at it, and takes its session away.
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
	srv.Refuse(zktest.Label("worker")) // or it would be back at once
	srv.Expire(srv.SessionOf("worker"))
	fmt.Println(srv.Children("/"), len(srv.Sessions()))
	// Output:
	// [worker zookeeper] 1
	// [zookeeper] 0
}

// A create is applied, and its reply is lost: the client cannot know.
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
