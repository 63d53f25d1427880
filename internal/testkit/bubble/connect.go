package bubble

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Connect starts a server in this process and connects a client to it, so that examples run anywhere.
func Connect(ctx context.Context) (client *conn.Client, done func()) {
	server, err := zktest.Start(zktest.InMemory())
	if err != nil {
		panic(err)
	}
	client, err = conn.Dial(ctx, server.Addr(), conn.WithDialer(server.Dial), conn.WithIdentity("worker-1"),
		conn.WithSessionTimeout(40*time.Second), Silent) // longer than a busy machine stalls
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close() // it never fails
		server.Close()
	}
}
