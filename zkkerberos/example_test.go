package zkkerberos_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

// A client of an ensemble with Kerberos. Only its principal can access what it creates.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	who, err := zkkerberos.Keytab("/etc/worker/worker.keytab", "worker@EXAMPLE.COM")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = who.Close() }() // never fails
	client, err := conn.Dial(ctx, "zk1.example.com,zk2.example.com,zk3.example.com/prod",
		conn.WithSASL(who),
		conn.WithACL(zk.AuthACL(zk.PermAll)),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}
