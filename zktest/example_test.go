package zktest_test

import (
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// A program starts a server, points a client at it, and takes its session away.
func ExampleStart() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	c, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second,
		zk.WithDialer(srv.DialTimeoutAs("worker")), zk.WithLogger(quiet{}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(srv.Children("/"), len(srv.Sessions()))
	srv.Refuse(zktest.Label("worker")) // or it would be back at once
	srv.Expire(srv.SessionOf("worker"))
	fmt.Println(srv.Children("/"), len(srv.Sessions()))
	// Output:
	// [worker zookeeper] 1
	// [zookeeper] 0
}

// The third create under /locks is applied, and its reply is lost.
func ExampleServer_Intercept() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	rule := srv.Intercept(zktest.Match{
		From: zktest.Label("worker"),
		Op:   zktest.OpCreate,
		Path: "^/locks/",
		Skip: 2,
	}, zktest.DropReply())
	fmt.Println(rule.Hits())
	// Output: 0
}
